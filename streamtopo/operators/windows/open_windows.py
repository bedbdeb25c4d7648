"""The windows that each key has rows for: loaded from the store, and cached for the keys in use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import Any

from streamtopo.stores.rows.layout import segment_start
from streamtopo.stores.rows.state import State
from streamtopo.topology.clocks import OperatorClock, Register
from streamtopo.windows import Windowed

_PAST_TIMES = b"\x80"
"""An upper bound for what follows the inner key: times are not negative, so their first bit is 0."""
_MOST_SEGMENTS = 20
"""If more may have windows, those that have are looked up first: while time waits, it may be years before the rows."""
_KEY_BYTES = 400
"""The approximate memory of a key with one or two windows."""


class OpenWindows:
    """The user adds new windows to the list that `of` returned, in the order of `place`, and removes deleted ones."""

    def __init__(self, state: State, newest: OperatorClock, latest: Register, place: Callable[[Windowed], Any]) -> None:
        self._state = state
        self._newest = newest
        self._latest = latest
        """The latest times in the keys of the store: up to stream time, and after it."""
        self._place = place
        self._windows: dict[Hashable, list[Windowed]] = {}
        self._older: dict[Hashable, list[Windowed]] = {}
        self._opened_in = state.changes.token
        self._uncommitted = self._by_inner(state.ordered.uncommitted_keys())
        """Changes of this commit made through an earlier object: a rollback creates a new one within a commit."""
        state.attach(self)

    def of(self, keys: Iterable[Hashable]) -> dict[Hashable, list[Windowed]]:
        """The windows of these inner keys, and of others."""
        windows, older = self._windows, self._older
        missing = set(keys).difference(windows)
        if missing and older:
            windows.update((key, older.pop(key)) for key in missing & older.keys())
            missing.difference_update(windows)
        if missing:
            windows.update(self._found(list(missing)))
        return windows

    @property
    def kept_bytes(self) -> int:
        return (len(self._windows) + len(self._older)) * _KEY_BYTES

    def forget_older(self) -> None:
        self._windows, self._older = {}, self._windows

    def _found(self, keys: list[Hashable]) -> Iterator[tuple[Hashable, list[Windowed]]]:
        """Load windows from the store. Windows that this object changed since the last commit are already in memory."""
        serde, segments, inner = self._state.spec.key, self._segments(), self._inner(keys)
        starts = [start + key for key in inner for start in segments]
        found = iter(self._state.ordered.committed_keys((start, start + _PAST_TIMES) for start in starts))
        uncommitted = self._uncommitted if self._state.changes.token is self._opened_in else {}
        for key, data in zip(keys, inner, strict=True):
            whole = len(data) + serde.window_bytes
            rows = {row: True for several in islice(found, len(segments)) for row in several if len(row) == whole}
            rows.update(uncommitted.get(data, {}))
            yield key, sorted((serde.decode(row) for row, is_there in rows.items() if is_there), key=self._place)

    def _by_inner(self, keys: dict[bytes, bool]) -> dict[bytes, dict[bytes, bool]]:
        """Windowed keys by the bytes of their inner keys."""
        found: dict[bytes, dict[bytes, bool]] = {}
        for key, is_there in keys.items():
            found.setdefault(key[: -self._state.spec.key.window_bytes], {})[key] = is_there
        return found

    def _inner(self, keys: list[Any]) -> list[bytes]:
        serde = self._state.spec.key
        return serde.inner_keys(serde.encode_column([(key, 0, 0) for key in keys])) if serde.exact else keys  # type: ignore[return-value]

    def _segments(self) -> list[bytes]:
        """The first bytes of the keys, for each segment that may have windows that are not expired."""
        spec, newest = self._state.spec, self._newest.seen
        first = max(0, self._newest.time - spec.retention) // spec.segment
        past = newest // spec.segment + 1
        if past - first > _MOST_SEGMENTS:
            past = first
        ahead = self._state.ordered.segments(past) if max(newest, self._latest.value) >= past * spec.segment else ()
        return [segment_start(number) for number in (*range(first, past), *ahead)]
