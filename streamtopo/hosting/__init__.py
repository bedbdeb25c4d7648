"""The engine inside other programs: `host` for scripts and asyncio, `lifespan` for ASGI services."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from streamtopo.engine.loading import Described, topology_of
from streamtopo.errors import ConfigError
from streamtopo.hints import hinted
from streamtopo.logs import Log
from streamtopo.logs.opening import DEFAULT, shown_log
from streamtopo.settings.config import WorkerConfig, config_of
from streamtopo.settings.durations import Duration
from streamtopo.settings.redaction import Secret
from streamtopo.topology import Topology

if TYPE_CHECKING:
    from streamtopo.hosting.app import App, AsyncApp
    from streamtopo.hosting.engines.factory import HostSettings
    from streamtopo.hosting.engines.lifecycle import StateListener

_CHUNK = 2000
"""Maximum records in a round: a fifth of a worker's default, because a chunk can delay event loops."""
STATE = "streamtopo"
"""Name of the app in the state of an ASGI application."""


@hinted
class Host:
    """Context manager: `with` gives an `App`, `async with` an `AsyncApp`, a new one each time."""

    def __init__(self, topology: Topology, log: Log | str, config: WorkerConfig, settings: HostSettings) -> None:
        self.topology = topology
        self.log = log
        self.config = config
        self.settings = settings
        self._apps: dict[object, list[Any]] = {}
        """The apps by the thread or task that entered, because several can be active at once."""

    def __repr__(self) -> str:
        log = shown_log(self.log) if isinstance(self.log, str) else self.log
        return f"Host({self.topology!r}, log {log}; a context manager: with host(…) as app)"

    def __enter__(self) -> App:
        from streamtopo.hosting.app import App

        app = App(self.topology, self.log, self.config, self.settings)
        app.start()
        self._apps.setdefault(threading.get_ident(), []).append(app)
        return app

    def __exit__(self, *_: object) -> None:
        self._take_app(threading.get_ident()).close()

    async def __aenter__(self) -> AsyncApp:
        import asyncio  # slow to import

        from streamtopo.hosting.app import AsyncApp

        app = AsyncApp(self.topology, self.log, self.config, self.settings)
        await app.start()
        self._apps.setdefault(asyncio.current_task(), []).append(app)
        return app

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await self._take_app(asyncio.current_task()).close()

    def _take_app(self, caller: object) -> Any:
        """Remove and return the app that this thread or task entered last. If there is none, as when another task runs
        the teardown of a fixture, return the most recent one."""
        if caller not in self._apps:
            caller = next(reversed(self._apps))
        apps = self._apps[caller]
        app = apps.pop()
        if not apps:
            del self._apps[caller]
        return app


def host(
    topology: Described | str,
    log: Log | str = DEFAULT,
    *,
    engine: str = "thread",
    processes: int = 1,
    on_state_change: StateListener | None = None,
    on_uncaught: Callable[[BaseException], object] = lambda error: None,
    close_timeout: Duration = "30s",
    address: str = "",
    token: str | None = None,
    **options: Any,
) -> Host:
    """Run a topology inside this program. The options are those of a `Worker`.

    With `engine="process"` it runs in `processes` separate processes, which load the topology by its name.

    `on_state_change(new, old)` is called in the engine's thread. `on_uncaught(error)` decides what to do when the
    engine fails: "stop" (or None), "replace", "shut down", or an `Uncaught`. Closing waits at most `close_timeout`
    for the last commit. `address` is the URL where other processes can query this one, if it serves `streamtopo.web`;
    `token` is what they must send.
    """
    from streamtopo.hosting.engines.factory import HostSettings

    if engine not in ("thread", "process"):
        raise ConfigError(f'engine is "{engine}"; give "thread" or "process"')
    own_processes = processes if engine == "process" else 0
    if own_processes and not (isinstance(topology, str) and isinstance(log, str)):
        raise ConfigError(
            'engine="process" needs names that its processes can use: host("apps.wordcount", "embedded:…")'
        )
    app = topology if isinstance(topology, str) else ""
    config = config_of(**{"chunk": _CHUNK} | options, close_timeout=close_timeout)
    settings = HostSettings(
        on_state_change, on_uncaught, config.close_timeout / 1000, address, token and Secret(token), own_processes, app
    )
    return Host(topology_of(topology), log, config, settings)


def lifespan(
    topology: Described | str, log: Log | str = DEFAULT, **options: Any
) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """Run the engine while an ASGI application runs: `FastAPI(lifespan=lifespan(topology))`.

    The app is `application.state.streamtopo`. The options are those of `host`.
    """

    @asynccontextmanager
    async def run(application: Any) -> AsyncIterator[None]:
        async with host(topology, log, **options) as app:
            setattr(application.state, STATE, app)
            yield

    return run
