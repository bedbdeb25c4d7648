"""What a store with windows cannot have: rows of windows that began when all that was put was at hand, and still is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.coding import Coding
from streamtopo.stores.layout import SEGMENT_BYTES, prefix_of, timed_prefix_of


class Newer:
    """Most windows that get their first row are newer than all rows that are not at hand: no need to look for them."""

    def __init__(self, spec: StoreSpec, store: Store, coding: Coding) -> None:
        self._spec = spec
        self._store = store
        self._coding = coding
        self._since: int | None = None
        """Rows from this time on are at hand, all that there are; None until somebody asks."""
        self._older = -1
        """The latest of those that will be forgotten next."""

    def others(self, index: Collection[Any]) -> list[Any]:
        """Of rows that are not at hand those that the store may have."""
        if not index:
            return []
        if self._since is None:
            self._since = self._behind_the_last_segment()
        times = self._coding.times(index)
        if min(times) >= self._since:
            return []
        return [key for key, time in zip(index, times, strict=True) if time < self._since]

    def forget_older(self, kept: Collection[Any]) -> None:
        """Right after a commit: of all rows only these are at hand, until this is said again."""
        if self._since is not None:
            self._since = max(self._since, self._older + 1)
        self._older = max(self._coding.times(kept), default=-1)

    def _behind_the_last_segment(self) -> int:
        prefix, past = prefix_of(self._spec.name), timed_prefix_of(self._spec.name)
        start = len(prefix)
        for place, _ in self._store.scan(prefix, past, reverse=True):
            return (int.from_bytes(place[start : start + SEGMENT_BYTES]) + 1) * self._spec.segment
        return 0
