"""Calls of the client that may never return."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread


class Call:
    """Begun in a thread of its own."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._failures: list[BaseException] = []
        self._thread = Thread(target=self._run, name="call of the client", daemon=True)
        self._thread.start()

    def returned(self, within: float) -> bool:
        """False if it has not after so many seconds: it goes on, and nobody waits for it. What it raised is raised."""
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
