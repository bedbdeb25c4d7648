"""Waits for rows that are not available now: one thread polls for all waiting queries and wakes them up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from streamtopo.hosting.answers import EngineFailed, NotOwner, Restoring
from streamtopo.settings.durations import Duration, milliseconds

Result = TypeVar("Result")

POLL_INTERVAL = 0.01
"""Seconds between two polls, and before the second attempt of a query."""
_MAX_PAUSE = 1.0
"""Maximum seconds between two attempts: the end of a restore in another process is not visible as a change."""


class Poller:
    """Polls something while callers wait for it to change, and then wakes up all of them."""

    def __init__(self, read: Callable[[], object], pause: float = POLL_INTERVAL) -> None:
        """`read` returns equal objects as long as there is no change; `pause` is in seconds."""
        self.version = 0
        """Different after each change. Read it before checking whether to wait."""
        self._read = read
        self._pause = pause
        self._last: object = None
        self._waiting: dict[object, Callable[[], object]] = {}
        self._polling = False
        self._lock = threading.Lock()

    def wait(self, seen: int, timeout: float | None = None) -> None:
        """Wait until the version differs from `seen`."""
        woken = threading.Event()
        with self._registered(seen, woken.set):
            woken.wait(timeout)

    async def wait_async(self, seen: int, timeout: float | None = None) -> None:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(woken.set)

        with self._registered(seen, wake), suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await woken.wait()

    @contextmanager
    def _registered(self, seen: int, wake: Callable[[], object]) -> Iterator[None]:
        """In this context, `wake` is called when the version differs from `seen`."""
        token = object()
        with self._lock:
            self._waiting[token] = wake
            if not self._polling:
                self._polling = True
                threading.Thread(target=self._poll, name="streamtopo poller", daemon=True).start()
            changed = self.version != seen
        try:
            if changed:
                wake()
            yield
        finally:
            with self._lock:
                del self._waiting[token]

    def _poll(self) -> None:
        while True:
            try:
                found = self._read()
            except Exception as error:  # the waiting callers will get the error themselves
                found = repr(error)
            with self._lock:
                if not self._waiting:
                    self._polling = False
                    return
                woken = list(self._waiting.values()) if found != self._last else []
                self.version += bool(woken)
                self._last = found
            for wake in woken:
                wake()
            time.sleep(self._pause)


CurrentFailure = Callable[[], BaseException | None]
"""The error that the engine of this process failed with."""


class Retry:
    """Repeats a refused query when tasks have moved, for as long as it may wait; not if the engine has failed."""

    def __init__(
        self, changes: Poller | None = None, wait: Duration = 0, failure: CurrentFailure = lambda: None
    ) -> None:
        self._changes = changes
        self._seconds = milliseconds(wait) / 1000
        self._failure = failure

    def call(self, attempt: Callable[[], Result]) -> Result:
        deadline, pause = time.monotonic() + self._seconds, POLL_INTERVAL
        while True:
            version = self._changes.version if self._changes else 0
            try:
                return attempt()
            except (NotOwner, Restoring) as refusal:
                self._check_engine(refusal)
                left = deadline - time.monotonic()
                if self._changes is None or left <= 0:
                    raise
            self._changes.wait(version, min(pause, left))
            pause = min(2 * pause, _MAX_PAUSE)

    async def call_async(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        deadline, pause = time.monotonic() + self._seconds, POLL_INTERVAL
        while True:
            version = self._changes.version if self._changes else 0
            try:
                return await attempt()
            except (NotOwner, Restoring) as refusal:
                self._check_engine(refusal)
                left = deadline - time.monotonic()
                if self._changes is None or left <= 0:
                    raise
            await self._changes.wait_async(version, min(pause, left))
            pause = min(2 * pause, _MAX_PAUSE)

    def _check_engine(self, refusal: NotOwner | Restoring) -> None:
        """Raise an error if nothing will bring the rows: the engine has failed, and no other process has them."""
        if isinstance(refusal, NotOwner) and refusal.address is None and (error := self._failure()) is not None:
            raise EngineFailed(error)
