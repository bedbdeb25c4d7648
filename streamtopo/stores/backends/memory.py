"""A store in memory: a dict, sorted when it is scanned."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from streamtopo.records import has_null
from streamtopo.stores import Changes
from streamtopo.stores.trust import Stamp
from streamtopo.wall_clock import wall_clock


class MemoryStore:
    def __init__(self, *, now: Callable[[], int] = wall_clock) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._sorted: list[bytes] | None = None
        self._stamps: dict[str, Stamp] = {}
        self._origins: dict[str, Stamp] = {}
        self._now = now

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return list(map(self._rows.get, keys))

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        if self._sorted is None:
            self._sorted = sorted(self._rows)
        keys = self._sorted[bisect_left(self._sorted, start) : bisect_left(self._sorted, stop)]
        return iter([(key, self._rows[key]) for key in (reversed(keys) if reverse else keys)])

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        return [list(self.scan(start, stop)) for start, stop in ranges]

    def write(self, changes: Changes, positions: Mapping[str, int], *, as_of: int | None = None) -> None:
        self._rows.update(changes)  # type: ignore[arg-type]
        if has_null(changes.values()):
            for key in [key for key, value in changes.items() if value is None]:
                del self._rows[key]
        self._sorted = None
        written_at = self._now() if as_of is None else as_of
        for store, offset in positions.items():
            origin = self._origins.get(store) or Stamp(0, "", "", 0)
            self._stamps[store] = origin._replace(offset=offset, written_at=written_at)

    def position(self, store: str) -> int | None:
        stamp = self.stamp(store)
        return None if stamp is None else stamp.offset

    def stamp(self, store: str) -> Stamp | None:
        return self._stamps.get(store)

    def belongs_to(self, store: str, log: str, changelog: str, layout: str = "") -> None:
        self._origins[store] = Stamp(0, log, changelog, 0, layout)

    def delete_range(self, start: bytes, stop: bytes, *, forget: str | None = None) -> None:
        for key, _ in self.scan(start, stop):
            del self._rows[key]
        self._sorted = None
        if forget is not None:
            self._stamps.pop(forget, None)

    @contextmanager
    def snapshot(self) -> Iterator[MemoryStore]:
        taken = MemoryStore()
        # Copied in one call, because the task's thread may be writing: rows being deleted are None for a moment.
        rows = dict(self._rows)
        taken._rows = {key: value for key, value in rows.items() if value is not None}
        yield taken

    def close(self) -> None:
        pass
