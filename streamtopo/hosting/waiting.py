"""Waiting for rows that are not available now: one thread looks for all waiting queries, and wakes them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from streamtopo.durations import Duration, milliseconds
from streamtopo.hosting.answers import NotOwner, Restoring

Result = TypeVar("Result")

AGAIN = 0.01
"""Seconds between two looks, and before the second attempt of a query."""
_SELDOM = 1.0
"""Seconds between two attempts at most, because a restore in another process ends without a task that moves."""


class Watch:
    """Looks at something again and again while callers wait for it to change, then wakes them all."""

    def __init__(self, look: Callable[[], object], pause: float = AGAIN) -> None:
        """`look` gives something that is equal as long as there is no change; `pause` is in seconds."""
        self.version = 0
        """Another one after each change that was seen. Take it before the look that shows that one has to wait."""
        self._look = look
        self._pause = pause
        self._found: object = None
        self._waiting: dict[object, Callable[[], object]] = {}
        self._looking = False
        self._lock = threading.Lock()

    def wait(self, since: int, timeout: float | None = None) -> None:
        """Until there is another version than `since`."""
        woken = threading.Event()
        with self._called(since, woken.set):
            woken.wait(timeout)

    async def wait_async(self, since: int, timeout: float | None = None) -> None:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(woken.set)

        with self._called(since, wake), suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await woken.wait()

    @contextmanager
    def _called(self, since: int, wake: Callable[[], object]) -> Iterator[None]:
        """Inside, `wake` is called when the version is another one."""
        one = object()
        with self._lock:
            self._waiting[one] = wake
            if not self._looking:
                self._looking = True
                threading.Thread(target=self._watch, name="streamtopo watch", daemon=True).start()
            moved = self.version != since
        try:
            if moved:
                wake()
            yield
        finally:
            with self._lock:
                del self._waiting[one]

    def _watch(self) -> None:
        while True:
            try:
                found = self._look()
            except Exception as error:  # those who wait meet it themselves
                found = repr(error)
            with self._lock:
                if not self._waiting:
                    self._looking = False
                    return
                woken = list(self._waiting.values()) if found != self._found else []
                self.version += bool(woken)
                self._found = found
            for wake in woken:
                wake()
            time.sleep(self._pause)


class Patience:
    """What a query does when it is refused: it tries again when tasks have moved, for as long as it may wait."""

    def __init__(self, moves: Watch | None = None, wait: Duration = 0) -> None:
        self._moves = moves
        self._seconds = milliseconds(wait) / 1000

    def until(self, attempt: Callable[[], Result]) -> Result:
        deadline, pause = time.monotonic() + self._seconds, AGAIN
        while True:
            version = self._moves.version if self._moves else 0
            try:
                return attempt()
            except (NotOwner, Restoring):
                left = deadline - time.monotonic()
                if self._moves is None or left <= 0:
                    raise
            self._moves.wait(version, min(pause, left))
            pause = min(2 * pause, _SELDOM)

    async def until_async(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        deadline, pause = time.monotonic() + self._seconds, AGAIN
        while True:
            version = self._moves.version if self._moves else 0
            try:
                return await attempt()
            except (NotOwner, Restoring):
                left = deadline - time.monotonic()
                if self._moves is None or left <= 0:
                    raise
            await self._moves.wait_async(version, min(pause, left))
            pause = min(2 * pause, _SELDOM)
