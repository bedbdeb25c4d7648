"""Calls of the client that may never return."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread


def returned(call: Callable[[], object], within: float) -> bool:
    """False if it has not after so many seconds: it goes on in a thread that nobody waits for."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as failure:
            failures.append(failure)

    thread = Thread(target=run, name="call of the client", daemon=True)
    thread.start()
    thread.join(within)
    ended = not thread.is_alive()
    if failures:
        raise failures[0]
    return ended
