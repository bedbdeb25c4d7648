"""A topology inside a service: its engine, its state, and its topics."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from streamtopo.engine.metrics import Metrics
from streamtopo.engine.plan import Plan
from streamtopo.engine.processes.pool import Pool
from streamtopo.engine.worker.worker import Worker
from streamtopo.errors import LogError, StreamtopoError
from streamtopo.hosting.consumer import POLL_INTERVAL, AsyncRecords, Consumed, TopicTail, tail_of
from streamtopo.hosting.engines.engine import Engine
from streamtopo.hosting.engines.factory import HostSettings, WorkerFactory
from streamtopo.hosting.engines.lifecycle import AppState, Lifecycle
from streamtopo.hosting.engines.process_engine import ProcessEngine
from streamtopo.hosting.engines.thread_engine import ThreadEngine
from streamtopo.hosting.producer import Delivery, Producer
from streamtopo.hosting.queries.async_query import AsyncQuery
from streamtopo.hosting.queries.query import Query
from streamtopo.hosting.queries.waiting import Poller
from streamtopo.hosting.sources.stores import Stores
from streamtopo.hosting.task_notice import TaskNotice
from streamtopo.logs import Log
from streamtopo.records import Headers
from streamtopo.serdes import SerdeLike
from streamtopo.settings.config import WorkerConfig
from streamtopo.settings.durations import milliseconds
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")


class HostError(StreamtopoError):
    """The app cannot do this in its current state."""


class HostedApp:
    """The common part of `App` and `AsyncApp`. Its methods can be called from any thread."""

    def __init__(self, topology: Topology, log: Log | str, config: WorkerConfig, settings: HostSettings) -> None:
        self.topology = topology
        self.settings = settings
        self._producer: Producer | None = None
        self._lifecycle = Lifecycle(settings.on_state_change)
        self._factory = WorkerFactory(topology, log, config, settings, self._lifecycle)
        self._lifecycle.add_listener(
            TaskNotice(topology.application_id, self._factory.place, self._current_plan, self.metrics)
        )
        self._pollers: dict[str, Poller] = {}
        """The pollers by topic."""
        self._thread_engine = ThreadEngine(self._create_worker, self._lifecycle, settings.on_uncaught)
        self._engine: Engine = self._thread_engine
        if settings.processes:
            self._engine = ProcessEngine(self._create_pool, self._lifecycle, settings.on_uncaught, settings.processes)
        self.stores = Stores(
            topology.application_id,
            self._current_plan,
            lambda: self._thread_engine.workers,
            self._factory.group_state,
            address=settings.address,
            token=settings.token,
            failure=lambda: self.error,
        )

    def __repr__(self) -> str:
        name, metrics = self.topology.application_id, self.metrics()
        tasks = f" with {len(metrics.tasks)} tasks" if metrics else ""
        return f"{type(self).__name__}({name}: {self.state.value}{tasks}; {self._factory.place})"

    # -- state

    @property
    def state(self) -> AppState:
        """What the app is doing: CREATED, REBALANCING, RUNNING, PENDING_SHUTDOWN, NOT_RUNNING or ERROR."""
        return self._lifecycle.state

    @property
    def error(self) -> BaseException | None:
        """The error of the engine, in the state ERROR."""
        return self._engine.error

    def metrics(self) -> Metrics | None:
        """Return recent metrics; None while there is no worker, for example before a failed one is replaced."""
        return self._engine.metrics()

    # -- control

    @property
    def paused(self) -> bool:
        """Whether processing is stopped by `pause`."""
        return self._engine.paused

    def pause(self) -> None:
        """Stop processing until `resume`. The app keeps its tasks and answers queries."""
        self._engine.pause(True)

    def resume(self) -> None:
        """Continue after `pause`."""
        self._engine.pause(False)

    @property
    def workers(self) -> int:
        """The number of threads or processes, as set by `scale` or `host`."""
        return self._engine.wanted

    def scale(self, workers: int) -> None:
        """Change the number of workers. Returns immediately; `ready` waits until they run."""
        if workers < 1:
            raise HostError(f"an app cannot have {workers} workers; give 1 or more, or pause the app")
        self._engine.scale(workers)

    def query(self, store: str, *, wait: str | int = 0, partition: int | None = None) -> Query:
        """Return a query of a store as of the last commit. It blocks while rows are fetched from other processes."""
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
        """Send a record and return immediately. Await the delivery, or call its `result()`, for the offset."""
        if self._producer is None:
            raise _outside_block(self.state)
        return self._producer.produce(topic, value, key, timestamp, headers, partition)

    # -- inside

    def _create_worker(self) -> Worker:
        self._open_producer()
        return self._factory.create_worker(self.stores.serve_local_processes)

    def _create_pool(self) -> Pool:
        self._open_producer()
        return self._factory.create_pool()

    def _open_producer(self) -> None:
        """Before the first worker: from then on the app can be used."""
        log = self._factory.open_log()
        self._producer = self._producer or Producer(self.topology, log)

    def _current_plan(self) -> Plan:
        plan = self._factory.current_plan(self._thread_engine.workers)
        if plan is None:
            raise _outside_block(self.state)
        return plan

    def _tail(self, topic: str, key: SerdeLike | None, value: SerdeLike | None, from_beginning: bool) -> TopicTail:
        if self._factory.log is None:
            raise _outside_block(self.state)
        return tail_of(self.topology, self._factory.log, topic, key, value, from_beginning=from_beginning)

    def _poller_of(self, topic: str, tail: TopicTail) -> Poller:
        """Return a poller that sees new records, and the closing of the app."""
        return self._pollers.setdefault(topic, Poller(lambda: (self._open, tail.ends()), POLL_INTERVAL))

    def _check_started(self) -> None:
        if self.error is not None:
            self.stores.close()
            self._factory.close_log()
            raise self.error

    def _check_ready(self, reached: bool) -> None:
        if self.error is not None:
            raise HostError(f"the engine failed: {self.error}") from self.error
        if not reached or self.state is not AppState.RUNNING:
            raise HostError(f"the app is {self.state.value}, not ready; see its metrics for what it is waiting for")

    def _close_rest(self, joined: bool, deadline: float) -> bool:
        """Close the rest after the engine. The log stays open if an engine that did not end in time still uses it."""
        self.stores.close()
        if self._producer is not None:
            self._producer.close(max(0.0, deadline - time.monotonic()))
        if joined:
            self._factory.close_log()
        else:
            logger.warning("the engine did not end in time; uncommitted work will be redone")
        return joined

    def _close_in_background(self) -> None:
        """Close the app in a thread, after the engine has ended, because the caller does not wait any more."""
        self._engine.stop()

        def end() -> None:
            self._engine.join()
            self._close_rest(True, time.monotonic() + self.settings.close_timeout)

        threading.Thread(target=end, name="streamtopo closing", daemon=True).start()

    def _next_page(self, tail: TopicTail) -> list[Consumed]:
        try:
            return tail.next_page()
        except LogError:
            if self.state.over:
                return []
            raise

    @property
    def _open(self) -> bool:
        return not self.state.over and self.state is not AppState.PENDING_SHUTDOWN


class App(HostedApp):
    """An app for scripts and threads. Its methods block."""

    def start(self) -> None:
        self._engine.start()
        self._lifecycle.wait(_has_started, None)
        self._check_started()

    def ready(self, timeout: str | int | None = None) -> None:
        """Return when all tasks are restored and running. Raise an error if the engine fails or the time is over."""
        self._check_ready(self._lifecycle.wait(_is_settled, _seconds(timeout)))

    def consume(
        self, topic: str, *, key: SerdeLike | None = None, value: SerdeLike | None = None, from_beginning: bool = False
    ) -> Iterator[Consumed]:
        """Yield records when they arrive, until the app is closed. Without `from_beginning`, only new records."""
        tail = self._tail(topic, key, value, from_beginning)
        poller = self._poller_of(topic, tail)

        def records() -> Iterator[Consumed]:
            while self._open:
                version = poller.version
                page = self._next_page(tail)
                yield from page
                if not page:
                    poller.wait(version)

        return records()

    def close(self, timeout: str | int | None = None) -> bool:
        """Commit and leave the group, so that others can take over. Return false if that takes too long."""
        deadline = time.monotonic() + (self.settings.close_timeout if timeout is None else _seconds(timeout) or 0.0)
        self._engine.stop()
        return self._close_rest(self._engine.join(max(0.0, deadline - time.monotonic())), deadline)


class AsyncApp(HostedApp):
    """An app for event loops. Methods that wait are coroutines."""

    async def start(self) -> None:
        self._engine.start()
        try:
            await self._lifecycle.wait_async(_has_started, None)
        except BaseException:  # cancelled: the caller cannot close it
            self._close_in_background()
            raise
        self._check_started()

    async def ready(self, timeout: str | int | None = None) -> None:
        """Return when all tasks are restored and running. Raise an error if the engine fails or the time is over."""
        self._check_ready(await self._lifecycle.wait_async(_is_settled, _seconds(timeout)))

    def query_async(self, store: str, *, wait: str | int = 0, partition: int | None = None) -> AsyncQuery:
        """Return a query like `query`, but with coroutines, which do not block the loop."""
        return self.stores.query_async(store, wait, partition)

    def consume(
        self, topic: str, *, key: SerdeLike | None = None, value: SerdeLike | None = None, from_beginning: bool = False
    ) -> AsyncIterator[Consumed]:
        """Yield records when they arrive, until the app is closed. Without `from_beginning`, only new records.

        While the consumer processes its records, no more records are read.
        """
        tail = self._tail(topic, key, value, from_beginning)
        return AsyncRecords(lambda: self._next_page(tail), self._poller_of(topic, tail), lambda: self._open)

    async def ended(self) -> None:
        """Return when the app is closed; if the engine failed, raise its error."""
        await self._lifecycle.wait_async(lambda state: state.over, None)
        if self.error is not None:
            raise self.error

    async def close(self, timeout: str | int | None = None) -> bool:
        """Commit and leave the group, so that others can take over. Return false if that takes too long."""
        given = self.settings.close_timeout if timeout is None else _seconds(timeout) or 0.0
        deadline = time.monotonic() + given
        self._engine.stop()
        try:
            ended = await self._lifecycle.wait_async(lambda state: state.over, given)
            return await asyncio.to_thread(self._close_rest, ended and self._engine.join(1.0), deadline)
        except asyncio.CancelledError:
            self._close_in_background()
            raise


def _has_started(state: AppState) -> bool:
    return state is not AppState.CREATED


def _is_settled(state: AppState) -> bool:
    return state is AppState.RUNNING or _closing(state)


def _closing(state: AppState) -> bool:
    return state.over or state is AppState.PENDING_SHUTDOWN


def _seconds(timeout: str | int | None) -> float | None:
    return None if timeout is None else milliseconds(timeout) / 1000


def _outside_block(state: AppState) -> HostError:
    return HostError(f"the app is {state.value}; use it inside its with block")
