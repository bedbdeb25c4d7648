"""What views of stores with a time in their keys share: looking by key and time, and not seeing what has expired."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Protocol

from streamtopo.errors import StoreError
from streamtopo.records import private
from streamtopo.stores.extent import Extent, latest_possible, oldest_live
from streamtopo.stores.state import Row, State
from streamtopo.windows import Windowed

Pair = tuple[Windowed, Any]


class StoreTimes(Protocol):
    """How far the times in a store's keys go."""

    @property
    def time(self) -> int:
        """What is older than this by the store's retention has expired."""
        ...

    @property
    def latest(self) -> int:
        """No row is later: with those that are too far ahead to move the time."""
        ...

    def put(self, time: int) -> None:
        """A row is put under this time."""
        ...


class TimedView:
    """Rows in the order of their segments, in each by the bytes of their keys; `reverse` turns that around.

    Each kind has a `_window` of its own, which looks whether the key can be.
    """

    def __init__(self, state: State, now: Callable[[], int], times: StoreTimes, expired: Callable[[], None]) -> None:
        """`expired` counts a put that comes too late."""
        self._state = state
        self._now = now
        self._times = times
        self._expired = expired
        self._serde = state.spec.key
        self._cut = self._serde.window_bytes

    def _put(
        self, window: Windowed, time: int, value: Any, timestamp: int | None, *, after: bytes | None = None
    ) -> None:
        """None deletes; a row that nobody could read any more is dropped and counted. `after` is another row's key."""
        state, retention = self._state, self._state.spec.retention
        self._times.put(time)
        if retention and time <= self._times.time - retention:
            self._expired()
            return
        index = self._index(window) if after is None else _next(after)
        state.row(index)
        at = self._now() if timestamp is None else timestamp
        state.put(index, None if value is None else (private(value), at), at)
        if retention:
            state.expire(max(0, self._times.time - retention + 1), 3)

    def _row(self, window: Windowed, time: int) -> Row | None:
        if time < oldest_live(self._state.spec, self._times.time):
            return None
        return self._state.copied(self._state.row(self._index(window)))

    def _of_key(self, key: Any, start: int, stop: int, *, reverse: bool = False) -> Iterator[tuple[Windowed, Row]]:
        """Rows of one key whose time is from `start` to `stop`, both included."""
        self._check(key)
        inner = self._inner(key)
        return self._between(inner, inner, start, stop, reverse=reverse)

    def _between(
        self, first: bytes | None, last: bytes | None, start: int, stop: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed, Row]]:
        """Rows with keys from `first` to `last`, both included, None is open; and times likewise."""
        spec, times = self._state.spec, self._times
        start, stop = max(start, oldest_live(spec, times.time)), min(stop, latest_possible(times.latest))
        extent = Extent(first, last, start, stop)
        segments = self._segments(extent)
        for low, high in extent.places(spec, segments[::-1] if reverse else segments):
            for key, row in self._state.scan(low, high, reverse=reverse):
                if extent.has(spec, key):
                    yield self._serde.decode(key), (private(row[0]), row[1])

    def _segments(self, extent: Extent) -> Sequence[int]:
        """Of the few up to the store's time all; of those further ahead, which may be many, the ones that have rows."""
        spec, numbers = self._state.spec, extent.segments(self._state.spec)
        past = latest_possible(self._times.time) // spec.segment + 1 if spec.segment else numbers.stop
        if numbers.stop <= past:
            return numbers
        ahead = self._state.segments(max(past, numbers.start))
        return [*range(numbers.start, past), *takewhile(numbers.__contains__, ahead)]

    def _index(self, window: Windowed) -> Any:
        return window if self._serde.exact else self._serde.encode(window)

    def _inner(self, key: Any) -> bytes:
        return self._serde.encode(Windowed(key, 0, 0))[: -self._cut]

    def _bound(self, key: Any) -> bytes | None:
        return None if key is None else self._inner(key)

    def _check(self, key: Any) -> None:
        if key is None:
            raise StoreError(f'store "{self._state.spec.name}" was given a null key; every row needs a key')


def _next(key: bytes) -> bytes:
    """The key with the next number at its end."""
    return (int.from_bytes(key) + 1).to_bytes(len(key))
