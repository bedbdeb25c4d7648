"""A topology inside a Faust app: its engine starts, stops and fails with the app, which also answers queries."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

import faust
from mode import Service

from streamtopo.engine.loading import Described, topology_of
from streamtopo.hosting import Host, host
from streamtopo.integrations.faust.transport import log_of
from streamtopo.settings.durations import Duration, milliseconds

if TYPE_CHECKING:
    from streamtopo.hosting.app import AsyncApp


class Attached(Service):
    """A service of mode that runs the engine while the Faust app runs, once the tables of the app are recovered."""

    def __init__(self, app: faust.App, topology: Described | str, log: str | None, path: str, **options: Any) -> None:
        super().__init__()
        self.topology = topology_of(topology)
        self._app: Any = app
        self._given = topology
        self._log = log
        self._path = path
        self._options = options
        self._hosted: AsyncApp | None = None
        host(topology, **options)  # wrong options raise an error now

    def host(self) -> Host:
        """Only after the app is configured: then its broker and its address are known."""
        conf = self._app.conf
        address = f"{str(conf.canonical_url).rstrip('/')}{self._path}" if conf.web_enabled else ""
        return host(self._given, self._log or log_of(conf.broker), **{"address": address} | self._options)

    @property
    def hosted(self) -> AsyncApp:
        """The running topology, as from `host`: `query`, `produce`, `consume`, `state`, and so on."""
        from streamtopo.hosting.app import HostError

        if self._hosted is None:
            name = self.topology.application_id
            raise HostError(f'the topology "{name}" is not running; it runs once its Faust app has started')
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
        """If the engine fails, this service fails too."""
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
    """Run a topology inside a Faust app. Without `log`, it uses the broker of the app. The options are those of `host`.

    An engine that fails is replaced, up to `restarts` times in a period of `within`; after that the app fails too. The
    web server of the app serves `streamtopo.web` under `/streamtopo`, and `faust -A …` gets the commands
    `streamtopo-query` and `streamtopo-topology`. A second topology of an app needs another `name` than "streamtopo".
    """
    from streamtopo.integrations.faust.commands import add_commands  # their imports take long
    from streamtopo.integrations.faust.views import add_views

    patience = _Patience(restarts, milliseconds(within) / 1000)
    attached = Attached(app, topology, log, f"/{name}", **{"on_uncaught": patience} | options)
    services: Any = app  # its `service` is declared to take classes, and takes instances
    services.service(attached)
    add_views(app, f"/{name}", lambda: attached.hosted, options.get("token"))
    add_commands(app, name, attached)
    return attached


class _Patience:
    """What to do when the engine fails. (The supervisors of mode restart more often than they should.)"""

    def __init__(self, restarts: int, within: float) -> None:
        self._failures: deque[float] = deque(maxlen=restarts + 1)
        self._within = within

    def __call__(self, error: BaseException) -> str:
        failures = self._failures
        failures.append(time.monotonic())
        return "stop" if len(failures) == failures.maxlen and failures[-1] - failures[0] < self._within else "replace"
