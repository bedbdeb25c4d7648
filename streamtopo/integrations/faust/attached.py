"""A topology inside a Faust app: its engine starts, stops and fails with the app, and is asked through it."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

import faust
from mode import Service

from streamtopo.durations import Duration, milliseconds
from streamtopo.engine.loading import Described, topology_of
from streamtopo.hosting import Host, host
from streamtopo.integrations.faust.transport import log_of

if TYPE_CHECKING:
    from streamtopo.hosting.app import AsyncApp


class Attached(Service):
    """Runs the engine while the Faust app runs, from when its tables are recovered; a service of mode."""

    def __init__(self, app: faust.App, topology: Described | str, log: str | None, path: str, **options: Any) -> None:
        super().__init__()
        self.topology = topology_of(topology)
        self._app: Any = app
        self._given = topology
        self._log = log
        self._path = path
        self._options = options
        self._hosted: AsyncApp | None = None
        host(topology, **options)  # what is wrong with them is said at once

    def host(self) -> Host:
        """Once the app is configured, which is after it was made: then its broker and its address are known."""
        conf = self._app.conf
        address = f"{str(conf.canonical_url).rstrip('/')}{self._path}" if conf.web_enabled else ""
        return host(self._given, self._log or log_of(conf.broker), **{"address": address} | self._options)

    @property
    def hosted(self) -> AsyncApp:
        """What `host` gives: `query`, `produce`, `consume`, `state`, and the rest."""
        from streamtopo.hosting.app import HostError

        if self._hosted is None:
            name = self.topology.application_id
            raise HostError(f'the topology "{name}" does not run; it does when its Faust app has started')
        return self._hosted

    async def on_start(self) -> None:
        self._host = self.host()
        self._hosted = await self._host.__aenter__()

    async def on_stop(self) -> None:
        if self._hosted is not None:
            self._hosted = None
            await self._host.__aexit__()

    @Service.task
    async def _watch(self) -> None:
        """When the engine fails, so does this service."""
        await self.hosted.ended()

    @property
    def label(self) -> str:
        return f"streamtopo: {self.topology.application_id}"


def attach(
    app: faust.App,
    topology: Described | str,
    log: str | None = None,
    *,
    name: str = "streamtopo",
    restarts: int = 3,
    within: Duration = "1m",
    **options: Any,
) -> Attached:
    """Run a topology inside a Faust app, on the app's broker unless a log is given; the options are those of `host`.

    An engine that fails is replaced, up to `restarts` times `within` so long; after that the app fails, too. What
    `streamtopo.web` serves is under `/streamtopo` on the app's web server, and `faust -A … streamtopo-query` and
    `streamtopo-topology` are commands. A second topology of an app needs another `name` than "streamtopo".
    """
    from streamtopo.integrations.faust.commands import add_commands  # what they need takes long to import
    from streamtopo.integrations.faust.views import add_views

    patience = _Patience(restarts, milliseconds(within) / 1000)
    attached = Attached(app, topology, log, f"/{name}", **{"on_uncaught": patience} | options)
    services: Any = app  # its `service` is declared to take classes, and takes instances
    services.service(attached)
    add_views(app, f"/{name}", lambda: attached.hosted, options.get("token"))
    add_commands(app, name, attached)
    return attached


class _Patience:
    """What to do when the engine fails. (mode's supervisors restart more often than they are told to.)"""

    def __init__(self, restarts: int, within: float) -> None:
        self._failures: deque[float] = deque(maxlen=restarts + 1)
        self._within = within

    def __call__(self, error: BaseException) -> str:
        failures = self._failures
        failures.append(time.monotonic())
        return "stop" if len(failures) == failures.maxlen and failures[-1] - failures[0] < self._within else "replace"
