"""What views of stores with a time in their keys share: look-ups by key and time, which skip expired rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Protocol, TypeAlias

from streamtopo.errors import StoreError
from streamtopo.records import private
from streamtopo.records.type_parameters import K, V
from streamtopo.stores.rows.extent import Extent, latest_possible, oldest_live
from streamtopo.stores.rows.state import Row, State
from streamtopo.windows import Windowed

WindowedPair: TypeAlias = tuple[Windowed[K], V]


class LatestTimes(Protocol):
    """The latest times in a store's keys."""

    @property
    def time(self) -> int:
        """Rows that are older than this by the retention of the store have expired."""
        ...

    @property
    def latest(self) -> int:
        """No row is later. This includes rows that are too far ahead to move the time."""
        ...

    def put(self, time: int) -> None:
        """A row with this time in its key is put."""
        ...


class TimedView:
    """Rows are in the order of their segments, and in a segment in the order of their keys' bytes, or in reverse.

    Each kind of view has its own `_window`, which checks the key.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._state.spec.shown})"

    def __init__(self, state: State, now: Callable[[], int], times: LatestTimes, expired: Callable[[], None]) -> None:
        """`expired` is called for each row that is put too late."""
        self._state = state
        self._now = now
        self._times = times
        self._expired = expired
        self._serde = state.spec.key
        self._cut = self._serde.window_bytes

    def _put(
        self, window: Windowed, time: int, value: Any, timestamp: int | None, *, after: bytes | None = None
    ) -> None:
        """None deletes; an expired row is dropped and counted. `after`: the row gets the next key after this one."""
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
            state.expiry.expire(max(0, self._times.time - retention + 1), 3)

    def _row(self, window: Windowed, time: int) -> Row | None:
        if time < oldest_live(self._state.spec, self._times.time):
            return None
        return self._state.copied(self._state.row(self._index(window)))

    def _of_key(self, key: Any, start: int, stop: int, *, reverse: bool = False) -> Iterator[tuple[Windowed, Row]]:
        """Rows of one key with times from `start` to `stop`, both included."""
        self._check(key)
        inner = self._inner(key)
        return self._between(inner, inner, start, stop, reverse=reverse)

    def _between(
        self, first: bytes | None, last: bytes | None, start: int, stop: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed, Row]]:
        """Rows with keys from `first` to `last` (None: no limit) and times from `start` to `stop`, all included."""
        spec, times = self._state.spec, self._times
        start, stop = max(start, oldest_live(spec, times.time)), min(stop, latest_possible(times.latest))
        extent = Extent(first, last, start, stop)
        segments = self._segments(extent)
        for low, high in extent.places(spec, segments[::-1] if reverse else segments):
            for key, row in self._state.scan(low, high, reverse=reverse):
                if extent.has(spec, key):
                    yield self._serde.decode(key), (private(row[0]), row[1])

    def _segments(self, extent: Extent) -> Sequence[int]:
        """All segments up to the store's time; of those further ahead, which may be many, only the ones with rows."""
        spec, numbers = self._state.spec, extent.segments(self._state.spec)
        past = latest_possible(self._times.time) // spec.segment + 1 if spec.segment else numbers.stop
        if numbers.stop <= past:
            return numbers
        ahead = self._state.ordered.segments(max(past, numbers.start))
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
