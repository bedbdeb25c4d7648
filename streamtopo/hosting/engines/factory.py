"""Creates the workers or the pool of an app, and opens its log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from streamtopo.engine.assignment.tasks import OpenStore
from streamtopo.engine.plan import Plan
from streamtopo.engine.processes.command import command, environment
from streamtopo.engine.processes.pool import Pool
from streamtopo.engine.topics.topics import Topics
from streamtopo.engine.worker.worker import Worker
from streamtopo.errors import LogError
from streamtopo.hosting.engines.lifecycle import Lifecycle, StateListener
from streamtopo.logs import GroupState, Log
from streamtopo.logs.opening import open_log, shown_log
from streamtopo.settings.config import WorkerConfig
from streamtopo.stores.backends.opening import stores_on_disk
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")


class HostSettings(NamedTuple):
    """The arguments of `host` that are not options of its workers."""

    on_state_change: StateListener | None
    on_uncaught: Callable[[BaseException], object]
    close_timeout: float
    address: str
    token: str | None
    processes: int = 0
    """Number of processes of the engine; 0 if it runs in threads."""
    app: str = ""
    """The name by which the processes load the topology."""


class WorkerFactory:
    """Opens the log for the first worker. A log that was given open is not closed here."""

    def __init__(
        self, topology: Topology, log: Log | str, config: WorkerConfig, settings: HostSettings, lifecycle: Lifecycle
    ) -> None:
        self.log = None if isinstance(log, str) else log
        """None until the first worker."""
        self.place = f"log {shown_log(log) if isinstance(log, str) else 'given open'}, stores in {config.state_dir}"
        """For messages."""
        self._topology = topology
        self._url = log if isinstance(log, str) else ""
        self._config = config
        self._settings = settings
        self._lifecycle = lifecycle
        self._plan: Plan | None = None
        self._open_store: OpenStore | None = None
        """Shared by all workers, because they share one memory limit."""

    def create_worker(self, serve_local_processes: Callable[[], str]) -> Worker:
        """Called in the worker's thread, because opening logs takes time, for one worker at a time."""
        config = self._config
        self._open_store = self._open_store or stores_on_disk(
            self._topology.application_id, config.state_dir, config.memory
        )
        log, address = self.open_log(), self._settings.address
        if not address and log.one_machine:
            address = serve_local_processes()
        worker = Worker(self._topology, log, self._open_store, config=config, address=address)
        self._plan = worker.plan
        return worker

    def create_pool(self) -> Pool:
        """Each process answers queries on a port of its own, on the host of `address`; this process has no rows."""
        self._plan = Topics(self._topology, self.open_log(), self._config).plan
        more = ["--web-port", "0", "--web-host", urlsplit(self._settings.address).hostname or "127.0.0.1"]
        return Pool(
            lambda lifeline: command(self._settings.app, self._config, lifeline, more),
            self._settings.processes,
            logger.info,
            environment(self._url, self._settings.token),
            self._settings.close_timeout,
        )

    def current_plan(self, workers: Iterable[Worker]) -> Plan | None:
        """Return the plan of the running workers, else that of the last one; None before the first."""
        for worker in workers:
            self._plan = worker.plan
        return self._plan

    def group_state(self, name: str) -> GroupState | None:
        """Return the state of a group, None if the app is closed."""
        try:
            return None if self.log is None else self.log.group(name)
        except LogError:
            if self._lifecycle.state.over:
                return None
            raise

    def open_log(self) -> Log:
        if self.log is None:
            self.log = open_log(self._url)
        return self.log

    def close_log(self) -> None:
        if self._url and self.log is not None:
            self._url = ""
            self.log.close()
