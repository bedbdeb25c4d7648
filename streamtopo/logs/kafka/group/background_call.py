"""Calls of the client that may never return run in a thread of their own."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread


class BackgroundCall:
    """It starts at once."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._failures: list[BaseException] = []
        self._thread = Thread(target=self._run, name="call of the client", daemon=True)
        self._thread.start()

    def returned(self, within: float) -> bool:
        """Wait up to `within` seconds; False if it is still running: it is abandoned. Its exception is raised here."""
        self._thread.join(within)
        ended = not self._thread.is_alive()
        if self._failures:
            raise self._failures[0]
        return ended

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as failure:
            self._failures.append(failure)
