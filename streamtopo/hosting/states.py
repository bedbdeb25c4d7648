"""The life of an embedded engine: its states are Kafka Streams', and one method moves from one to the next."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import Enum

logger = logging.getLogger("streamtopo")


class AppState(Enum):
    CREATED = "created"
    REBALANCING = "rebalancing"
    """Tasks are being opened and restored."""
    RUNNING = "running"
    """All tasks that it has are at work."""
    PENDING_SHUTDOWN = "pending shutdown"
    NOT_RUNNING = "not running"
    ERROR = "error"

    @property
    def over(self) -> bool:
        return self in (AppState.NOT_RUNNING, AppState.ERROR)


_NEXT = {
    AppState.CREATED: {AppState.REBALANCING, AppState.PENDING_SHUTDOWN, AppState.ERROR},
    AppState.REBALANCING: {AppState.RUNNING, AppState.PENDING_SHUTDOWN, AppState.ERROR},
    AppState.RUNNING: {AppState.REBALANCING, AppState.PENDING_SHUTDOWN, AppState.ERROR},
    AppState.PENDING_SHUTDOWN: {AppState.NOT_RUNNING, AppState.ERROR},
    AppState.NOT_RUNNING: set(),
    AppState.ERROR: set(),
}

Watcher = Callable[[AppState, AppState], object]


class Life:
    """Watchers are told the new state and the old one, in the thread that moves it: mostly the engine's."""

    def __init__(self, watcher: Watcher | None) -> None:
        self.state = AppState.CREATED
        self._watchers = [watcher] if watcher else []
        self._changed = threading.Condition()

    def move(self, new: AppState) -> None:
        """Where there is no way from here to there, nothing happens: whoever is late says nothing new."""
        with self._changed:
            old = self.state
            if new not in _NEXT[old]:
                return
            self.state = new
            self._changed.notify_all()
            watchers = list(self._watchers)
        for watcher in watchers:
            try:
                watcher(new, old)
            except Exception:
                logger.exception("what watches the app's state raised as it became %s", new.value)

    def watch(self, watcher: Watcher) -> None:
        with self._changed:
            self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        with self._changed:
            self._watchers.remove(watcher)

    def wait(self, reached: Callable[[AppState], bool], timeout: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: reached(self.state), timeout)

    async def wait_async(self, reached: Callable[[AppState], bool], timeout: float | None) -> bool:
        """The same on an event loop, which may be closed before it is told."""
        import asyncio

        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def tell(new: AppState, old: AppState) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

        self.watch(tell)
        try:
            async with asyncio.timeout(timeout):
                while not reached(self.state):
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            return False
        finally:
            self.unwatch(tell)
        return True
