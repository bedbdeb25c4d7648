"""The windows each key has rows for: found in the store, and kept at hand for the keys in use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import Any

from streamtopo.stores.layout import segment_start
from streamtopo.stores.state import State
from streamtopo.topology import OperatorClock
from streamtopo.windows import Windowed

_PAST_TIMES = b"\x80"
"""What follows the inner key begins with a bit that is not set."""
_KEY_BYTES = 400
"""About what a key takes here, with a window or two."""


class OpenWindows:
    """Who uses it puts each window it adds or removes into the list that `of` gave, in the order of `place`."""

    def __init__(
        self, state: State, newest: OperatorClock, latest: OperatorClock, place: Callable[[Windowed], Any]
    ) -> None:
        self._state = state
        self._newest = newest
        self._latest = latest
        """The latest times that keys in the store have: up to stream time, and past it."""
        self._place = place
        self._windows: dict[Hashable, list[Windowed]] = {}
        self._older: dict[Hashable, list[Windowed]] = {}
        self._commit = state.commits
        self._uncommitted = self._by_inner(state.uncommitted_keys())
        """What others of this kind changed before in the same commit: this one may follow one that was undone."""
        state.beside = self

    def of(self, keys: Iterable[Hashable]) -> dict[Hashable, list[Windowed]]:
        """The windows of these inner keys, among others."""
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
        """All rows that this one changed since the last commit are in memory, so the store knows the rest."""
        serde, segments, inner = self._state.spec.key, self._segments(), self._inner(keys)
        starts = [start + key for key in inner for start in segments]
        found = iter(self._state.committed_keys((start, start + _PAST_TIMES) for start in starts))
        uncommitted = self._uncommitted if self._state.commits == self._commit else {}
        for key, data in zip(keys, inner, strict=True):
            whole = len(data) + serde.window_bytes
            rows = {row: True for several in islice(found, len(segments)) for row in several if len(row) == whole}
            rows.update(uncommitted.get(data, {}))
            yield key, sorted((serde.decode(row) for row, is_there in rows.items() if is_there), key=self._place)

    def _by_inner(self, keys: dict[bytes, bool]) -> dict[bytes, dict[bytes, bool]]:
        """Keys of windows by the bytes of their inner keys."""
        found: dict[bytes, dict[bytes, bool]] = {}
        for key, is_there in keys.items():
            found.setdefault(key[: -self._state.spec.key.window_bytes], {})[key] = is_there
        return found

    def _inner(self, keys: list[Any]) -> list[bytes]:
        serde = self._state.spec.key
        return serde.inner_keys(serde.encode_column([(key, 0, 0) for key in keys])) if serde.exact else keys  # type: ignore[return-value]

    def _segments(self) -> list[bytes]:
        """What the keys begin with in those that may have windows that count still."""
        spec, newest = self._state.spec, self._newest.time
        oldest = max(0, newest - spec.retention)
        past = newest // spec.segment + 1
        ahead = self._state.segments(past) if self._latest.time > newest else ()
        return [segment_start(number) for number in (*range(oldest // spec.segment, past), *ahead)]
