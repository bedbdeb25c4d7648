"""The engine inside other programs: `host` for scripts and asyncio, `lifespan` for ASGI services."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from streamtopo.config import WorkerConfig, config_of
from streamtopo.durations import Duration
from streamtopo.engine.loading import Described, topology_of
from streamtopo.errors import ConfigError
from streamtopo.logs import Log
from streamtopo.logs.opening import DEFAULT
from streamtopo.redaction import Secret
from streamtopo.topology import Topology

if TYPE_CHECKING:
    from streamtopo.hosting.app import App, AsyncApp, Settings
    from streamtopo.hosting.states import Watcher

_CHUNK = 2000
"""Records in a round: a fifth of what a worker takes that has the process to itself, for the sake of event loops."""
STATE = "streamtopo"
"""The name under which an ASGI application keeps the app in its state."""


class Host:
    """Entered by `with` for an `App`, by `async with` for an `AsyncApp`; each time it is a new one."""

    def __init__(self, topology: Topology, log: Log | str, config: WorkerConfig, settings: Settings) -> None:
        self.topology = topology
        self.log = log
        self.config = config
        self.settings = settings
        self._apps: dict[object, list[Any]] = {}
        """By the thread or task that entered, as several may be inside at once."""

    def __enter__(self) -> App:
        from streamtopo.hosting.app import App

        app = App(self.topology, self.log, self.config, self.settings)
        app.start()
        self._apps.setdefault(threading.get_ident(), []).append(app)
        return app

    def __exit__(self, *_: object) -> None:
        self._left(threading.get_ident()).close()

    async def __aenter__(self) -> AsyncApp:
        import asyncio  # takes long

        from streamtopo.hosting.app import AsyncApp

        app = AsyncApp(self.topology, self.log, self.config, self.settings)
        await app.start()
        self._apps.setdefault(asyncio.current_task(), []).append(app)
        return app

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await self._left(asyncio.current_task()).close()

    def _left(self, who: object) -> Any:
        """The last one that it entered; of whoever was last where another one leaves, as a fixture may."""
        if who not in self._apps:
            who = next(reversed(self._apps))
        apps = self._apps[who]
        app = apps.pop()
        if not apps:
            del self._apps[who]
        return app


def host(
    topology: Described | str,
    log: Log | str = DEFAULT,
    *,
    engine: str = "thread",
    processes: int = 1,
    on_state_change: Watcher | None = None,
    on_uncaught: Callable[[BaseException], object] = lambda error: None,
    close_timeout: Duration = "30s",
    address: str = "",
    token: str | None = None,
    **options: Any,
) -> Host:
    """Run a topology beside what this program does; the options are those of a `Worker`.

    With `engine="process"` it runs in so many processes of its own, which load the topology by the name that is given.

    `on_state_change(new, old)` is called in the engine's thread. `on_uncaught(error)` says what follows when the engine
    fails: "stop" (which None means too), "replace" or "shut down", or an `Uncaught`. Closing waits for the last commit
    for at most `close_timeout`. `address` is where other processes can ask this one, if it serves `streamtopo.web`, and
    `token` what they have to show.
    """
    from streamtopo.hosting.app import Settings

    if engine not in ("thread", "process"):
        raise ConfigError(f'engine is "{engine}"; give "thread" or "process"')
    apart = processes if engine == "process" else 0
    if apart and not (isinstance(topology, str) and isinstance(log, str)):
        raise ConfigError(
            'engine="process" needs names that its processes can use: host("apps.wordcount", "embedded:…")'
        )
    app = topology if isinstance(topology, str) else ""
    config = config_of(**{"chunk": _CHUNK} | options, close_timeout=close_timeout)
    settings = Settings(
        on_state_change, on_uncaught, config.close_timeout / 1000, address, token and Secret(token), apart, app
    )
    return Host(topology_of(topology), log, config, settings)


def lifespan(
    topology: Described | str, log: Log | str = DEFAULT, **options: Any
) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """For `FastAPI(lifespan=lifespan(topology))` and other ASGI applications: the engine runs while they do.

    The app is `application.state.streamtopo`; options are those of `host`.
    """

    @asynccontextmanager
    async def run(application: Any) -> AsyncIterator[None]:
        async with host(topology, log, **options) as app:
            setattr(application.state, STATE, app)
            yield

    return run
