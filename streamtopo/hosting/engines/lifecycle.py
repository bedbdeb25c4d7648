"""The lifecycle of an engine, with the states of Kafka Streams and one method that changes the state."""

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
    """All its tasks are running."""
    PENDING_SHUTDOWN = "pending shutdown"
    NOT_RUNNING = "not running"
    ERROR = "error"

    @property
    def over(self) -> bool:
        return self in (AppState.NOT_RUNNING, AppState.ERROR)


_TRANSITIONS = {
    AppState.CREATED: {AppState.REBALANCING, AppState.PENDING_SHUTDOWN, AppState.ERROR},
    AppState.REBALANCING: {AppState.RUNNING, AppState.PENDING_SHUTDOWN, AppState.ERROR},
    AppState.RUNNING: {AppState.REBALANCING, AppState.PENDING_SHUTDOWN, AppState.ERROR},
    AppState.PENDING_SHUTDOWN: {AppState.NOT_RUNNING, AppState.ERROR},
    AppState.NOT_RUNNING: set(),
    AppState.ERROR: set(),
}

StateListener = Callable[[AppState, AppState], object]


class Lifecycle:
    """The state, and its listeners, which are called with the new and the old state in the thread that changes it."""

    def __init__(self, listener: StateListener | None) -> None:
        self.state = AppState.CREATED
        self._listeners = [listener] if listener else []
        self._changed = threading.Condition()

    def move(self, new: AppState) -> None:
        """Change the state. Invalid transitions are ignored: a late caller has nothing to add."""
        with self._changed:
            old = self.state
            if new not in _TRANSITIONS[old]:
                return
            self.state = new
            self._changed.notify_all()
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(new, old)
            except Exception:
                logger.exception("on_state_change failed for the state %s", new.value)

    def add_listener(self, listener: StateListener) -> None:
        with self._changed:
            self._listeners.append(listener)

    def remove_listener(self, listener: StateListener) -> None:
        with self._changed:
            self._listeners.remove(listener)

    def wait(self, reached: Callable[[AppState], bool], timeout: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: reached(self.state), timeout)

    async def wait_async(self, reached: Callable[[AppState], bool], timeout: float | None) -> bool:
        """Wait on an event loop, which may be closed before the state changes."""
        import asyncio

        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def on_change(new: AppState, old: AppState) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

        self.add_listener(on_change)
        try:
            async with asyncio.timeout(timeout):
                while not reached(self.state):
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            return False
        finally:
            self.remove_listener(on_change)
        return True
