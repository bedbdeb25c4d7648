"""A topology inside a service: an engine beside the service's own work, its state, and its topics."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from streamtopo.config import WorkerConfig
from streamtopo.declarations import read_or_written
from streamtopo.durations import milliseconds
from streamtopo.engine.command import command, environment
from streamtopo.engine.metrics import Metrics
from streamtopo.engine.plan import Plan
from streamtopo.engine.pool import Pool
from streamtopo.engine.tasks import OpenStore
from streamtopo.engine.topics import Topics
from streamtopo.engine.worker import Worker
from streamtopo.errors import LogError, StreamtopoError
from streamtopo.hosting.asking import AsyncQuery
from streamtopo.hosting.consuming import PAUSE, Arriving, Consumed, Tail
from streamtopo.hosting.engine import Engine
from streamtopo.hosting.processes import Processes
from streamtopo.hosting.producing import Delivery, Producer
from streamtopo.hosting.query import Query
from streamtopo.hosting.states import AppState, Life, Watcher
from streamtopo.hosting.stores import Stores
from streamtopo.hosting.threads import Threaded
from streamtopo.hosting.waiting import Watch
from streamtopo.logs import GroupState, Log
from streamtopo.logs.opening import open_log
from streamtopo.records import Headers
from streamtopo.serdes import BYTES, SerdeLike, serde_of
from streamtopo.stores.opening import stores_on_disk
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")


class HostError(StreamtopoError):
    """The app cannot do this in the state that it is in."""


class Settings(NamedTuple):
    """What `host` was told, beside the options of its workers."""

    on_state_change: Watcher | None
    on_uncaught: Callable[[BaseException], object]
    close_timeout: float
    address: str
    token: str | None
    processes: int = 0
    """For the engine; without any it is a thread."""
    app: str = ""
    """What processes call the topology."""


class Hosted:
    """What the app of a script and the app of an event loop have in common; for any thread."""

    def __init__(self, topology: Topology, log: Log | str, config: WorkerConfig, settings: Settings) -> None:
        self.topology = topology
        self.settings = settings
        self._config = config
        self._url = log if isinstance(log, str) else ""
        self._log = None if isinstance(log, str) else log
        self._producer: Producer | None = None
        self._plan: Plan | None = None
        self._open_store: OpenStore | None = None
        """For all workers, because they share a budget of memory."""
        self._life = Life(settings.on_state_change)
        self._news: dict[str, Watch] = {}
        """By the topic that is consumed."""
        self._threaded = Threaded(self._make_worker, self._life, settings.on_uncaught)
        self._engine: Engine = self._threaded
        if settings.processes:
            self._engine = Processes(self._make_pool, self._life, settings.on_uncaught, settings.processes)
        self.stores = Stores(
            topology.application_id,
            self._planned,
            lambda: self._threaded.workers,
            self._group_state,
            address=settings.address,
            token=settings.token,
        )

    # -- how it is

    @property
    def state(self) -> AppState:
        return self._life.state

    @property
    def error(self) -> BaseException | None:
        """What the engine failed at, in the state ERROR."""
        return self._engine.error

    def metrics(self) -> Metrics | None:
        """As of a moment ago; None while there is no worker, as between one that failed and the next."""
        return self._engine.metrics()

    # -- what it does

    @property
    def paused(self) -> bool:
        return self._engine.paused

    def pause(self) -> None:
        """Process nothing until `resume`; the tasks stay here, and so do the answers to queries."""
        self._engine.pause(True)

    def resume(self) -> None:
        self._engine.pause(False)

    @property
    def workers(self) -> int:
        """How many threads, or processes, share the work; what `scale` said, or `host`."""
        return self._engine.wanted

    def scale(self, workers: int) -> None:
        """Have so many from now on. Returns at once; `ready` waits until they are at work."""
        if workers < 1:
            raise HostError(f"{workers} workers cannot do the work; give 1 or more, or pause the app")
        self._engine.scale(workers)

    def query(self, store: str, *, wait: str | int = 0, partition: int | None = None) -> Query:
        """A store as of the last commit. Rows of other processes are fetched from there, while the caller waits."""
        return self.stores.query(store, wait, partition)

    def produce(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        timestamp: int | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> Delivery:
        """Returns at once; the delivery can be awaited, or waited for with `result()`, and is the offset."""
        if self._producer is None:
            raise _not_in_a_block(self.state)
        return self._producer.produce(topic, value, key, timestamp, headers, partition)

    # -- inside

    def _make_worker(self) -> Worker:
        """Called in the worker's thread, one after the other: opening logs takes its time."""
        config = self._config
        self._open_store = self._open_store or stores_on_disk(
            self.topology.application_id, config.state_dir, config.memory
        )
        log, address = self._opened(), self.settings.address
        if not address and log.one_machine:
            address = self.stores.answer_neighbours()
        worker = Worker(self.topology, log, self._open_store, config=config, address=address)
        self._plan = worker.plan
        return worker

    def _make_pool(self) -> Pool:
        """Each process answers queries at a port of its own, of the host in `address`; this one has no rows."""
        self._plan = Topics(self.topology, self._opened(), self._config).plan
        more = ["--web-port", "0", "--web-host", urlsplit(self.settings.address).hostname or "127.0.0.1"]
        return Pool(
            lambda lifeline: command(self.settings.app, self._config, lifeline, more),
            self.settings.processes,
            logger.info,
            environment(self._url, self.settings.token),
            self.settings.close_timeout,
        )

    def _opened(self) -> Log:
        if self._log is None:
            self._log = open_log(self._url)
        self._producer = self._producer or Producer(self.topology, self._log)
        return self._log

    def _planned(self) -> Plan:
        for worker in self._threaded.workers:
            self._plan = worker.plan
        if self._plan is None:
            raise _not_in_a_block(self.state)
        return self._plan

    def _group_state(self, name: str) -> GroupState | None:
        """None, when the app is closed."""
        try:
            return None if self._log is None else self._log.group(name)
        except LogError:
            if self.state.over:
                return None
            raise

    def _tail(self, topic: str, key: SerdeLike | None, value: SerdeLike | None, from_beginning: bool) -> Tail:
        if self._log is None:
            raise _not_in_a_block(self.state)
        keys, values = next(read_or_written(self.topology, topic), (BYTES, BYTES))
        serdes = (
            keys if key is None else serde_of(key, key=True),
            values if value is None else serde_of(value),
        )
        return Tail(self._log, topic, serdes, from_beginning=from_beginning)

    def _news_of(self, topic: str, tail: Tail) -> Watch:
        """Changes when there are new records, and when the app is closed."""
        return self._news.setdefault(topic, Watch(lambda: (self._open, tail.ends()), PAUSE))

    def _check_started(self) -> None:
        if self.error is not None:
            self.stores.close()
            self._close_log()
            raise self.error

    def _check_ready(self, reached: bool) -> None:
        if self.error is not None:
            raise HostError(f"the engine failed: {self.error}") from self.error
        if not reached or self.state is not AppState.RUNNING:
            raise HostError(f"the app is {self.state.value}, and not ready; its metrics say what it is waiting for")

    def _end(self, joined: bool, deadline: float) -> bool:
        """After its engine's: a log that is still in use, because that did not end in time, stays open."""
        self.stores.close()
        if self._producer is not None:
            self._producer.close(max(0.0, deadline - time.monotonic()))
        if joined:
            self._close_log()
        else:
            logger.warning("the engine did not end in time; what it has not committed will be done again")
        return joined

    def _end_by_itself(self) -> None:
        """When the engine has ended, with nobody there who waits for it."""
        self._engine.stop()

        def end() -> None:
            self._engine.join()
            self._end(True, time.monotonic() + self.settings.close_timeout)

        threading.Thread(target=end, name="streamtopo closing", daemon=True).start()

    def _close_log(self) -> None:
        if self._url and self._log is not None:
            self._url = ""
            self._log.close()

    def _next_page(self, tail: Tail) -> list[Consumed]:
        try:
            return tail.next_page()
        except LogError:
            if self.state.over:
                return []
            raise

    @property
    def _open(self) -> bool:
        return not self.state.over and self.state is not AppState.PENDING_SHUTDOWN


class App(Hosted):
    """For scripts and threads: what waits, waits."""

    def start(self) -> None:
        self._engine.start()
        self._life.wait(_begun, None)
        self._check_started()

    def ready(self, timeout: str | int | None = None) -> None:
        """Return when all tasks are at work, restored; an error if the engine failed or the time is over."""
        self._check_ready(self._life.wait(_settled, _seconds(timeout)))

    def consume(
        self, topic: str, *, key: SerdeLike | None = None, value: SerdeLike | None = None, from_beginning: bool = False
    ) -> Iterator[Consumed]:
        """Records as they come, until the app is closed; only new ones unless `from_beginning`."""
        tail = self._tail(topic, key, value, from_beginning)
        news = self._news_of(topic, tail)

        def records() -> Iterator[Consumed]:
            while self._open:
                version = news.version
                page = self._next_page(tail)
                yield from page
                if not page:
                    news.wait(version)

        return records()

    def close(self, timeout: str | int | None = None) -> bool:
        """Commit and leave, so that others may take over at once; false if that took longer than it may."""
        deadline = time.monotonic() + (self.settings.close_timeout if timeout is None else _seconds(timeout) or 0.0)
        self._engine.stop()
        return self._end(self._engine.join(max(0.0, deadline - time.monotonic())), deadline)


class AsyncApp(Hosted):
    """For event loops: what waits is awaited."""

    async def start(self) -> None:
        self._engine.start()
        try:
            await self._life.wait_async(_begun, None)
        except BaseException:  # cancelled: nobody is going to close it
            self._end_by_itself()
            raise
        self._check_started()

    async def ready(self, timeout: str | int | None = None) -> None:
        """Return when all tasks are at work, restored; an error if the engine failed or the time is over."""
        self._check_ready(await self._life.wait_async(_settled, _seconds(timeout)))

    def query_async(self, store: str, *, wait: str | int = 0, partition: int | None = None) -> AsyncQuery:
        """The same questions as `query` has, to be awaited: the loop goes on while other processes are asked."""
        return self.stores.query_async(store, wait, partition)

    def consume(
        self, topic: str, *, key: SerdeLike | None = None, value: SerdeLike | None = None, from_beginning: bool = False
    ) -> AsyncIterator[Consumed]:
        """Records as they come, until the app is closed; only new ones unless `from_beginning`.

        No more are read while the consumer is at work on those that it has.
        """
        tail = self._tail(topic, key, value, from_beginning)
        return Arriving(lambda: self._next_page(tail), self._news_of(topic, tail), lambda: self._open)

    async def ended(self) -> None:
        """Return when the app is closed; raise what the engine failed at, if it did."""
        await self._life.wait_async(lambda state: state.over, None)
        if self.error is not None:
            raise self.error

    async def close(self, timeout: str | int | None = None) -> bool:
        """Commit and leave, so that others may take over at once; false if that took longer than it may."""
        given = self.settings.close_timeout if timeout is None else _seconds(timeout) or 0.0
        deadline = time.monotonic() + given
        self._engine.stop()
        try:
            ended = await self._life.wait_async(lambda state: state.over, given)
            return await asyncio.to_thread(self._end, ended and self._engine.join(1.0), deadline)
        except asyncio.CancelledError:
            self._end_by_itself()
            raise


def _begun(state: AppState) -> bool:
    return state is not AppState.CREATED


def _settled(state: AppState) -> bool:
    return state is AppState.RUNNING or _closing(state)


def _closing(state: AppState) -> bool:
    return state.over or state is AppState.PENDING_SHUTDOWN


def _seconds(timeout: str | int | None) -> float | None:
    return None if timeout is None else milliseconds(timeout) / 1000


def _not_in_a_block(state: AppState) -> HostError:
    return HostError(f"the app is {state.value}; use it inside of its with block")
