"""The windows each key has rows for: found in the store, and kept at hand for the keys in use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from streamtopo.stores.layout import segment_start
from streamtopo.stores.state import State
from streamtopo.topology import OperatorClock
from streamtopo.windows import Windowed

_AT_HAND = 50_000
"""Keys whose windows are kept at hand after a commit, and as many that were used before."""


class OpenWindows:
    """Who uses it puts each window it adds or removes into the list that `of` gave, in the order of `place`."""

    def __init__(self, state: State, newest: OperatorClock, place: Callable[[Windowed], Any]) -> None:
        self._state = state
        self._newest = newest
        """The latest time that a key in the store has."""
        self._place = place
        self._windows: dict[Hashable, list[Windowed]] = {}
        self._older: dict[Hashable, list[Windowed]] = {}
        self._commits = state.commits

    def of(self, keys: Iterable[Hashable]) -> dict[Hashable, list[Windowed]]:
        """The windows of these inner keys, among others."""
        if self._commits != self._state.commits:
            self._commits = self._state.commits
            if len(self._windows) > _AT_HAND:
                self._windows, self._older = {}, self._windows
        for key in set(keys).difference(self._windows):
            self._windows[key] = self._older.pop(key) if key in self._older else self._found(key)
        return self._windows

    def _found(self, key: Hashable) -> list[Windowed]:
        """All that were changed since the last commit are at hand, so the store knows the rest."""
        spec = self._state.spec
        inner = self._inner(key)
        whole = len(inner) + spec.key.window_bytes
        found: list[Windowed] = []
        for segment in self._segments():
            start = segment_start(segment) + inner
            rows = self._state.committed_keys(start, start + b"\x80")  # times begin with a bit that is not set
            found += [spec.key.decode(row) for row in rows if len(row) == whole]
        return sorted(found, key=self._place)

    def _inner(self, key: Any) -> bytes:
        serde = self._state.spec.key
        if not serde.exact:
            return key  # type: ignore[no-any-return]
        (inner,) = serde.inner_keys([serde.encode((key, 0, 0))])
        return inner  # type: ignore[return-value]

    def _segments(self) -> range:
        spec, newest = self._state.spec, self._newest.time
        oldest = max(0, newest - spec.retention)
        return range(oldest // spec.segment, newest // spec.segment + 1)
