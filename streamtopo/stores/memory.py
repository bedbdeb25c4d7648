"""A store in memory: a dict, sorted when it is scanned."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from streamtopo.stores import Changes


class MemoryStore:
    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._sorted: list[bytes] | None = None
        self._positions: dict[str, int] = {}

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return list(map(self._rows.get, keys))

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        if self._sorted is None:
            self._sorted = sorted(self._rows)
        keys = self._sorted[bisect_left(self._sorted, start) : bisect_left(self._sorted, stop)]
        return iter([(key, self._rows[key]) for key in (reversed(keys) if reverse else keys)])

    def write(self, changes: Changes, positions: Mapping[str, int]) -> None:
        self._rows.update(changes)  # type: ignore[arg-type]
        if None in changes.values():
            for key in [key for key, value in changes.items() if value is None]:
                del self._rows[key]
        self._sorted = None
        self._positions.update(positions)

    def position(self, store: str) -> int | None:
        return self._positions.get(store)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        for key, _ in self.scan(start, stop):
            del self._rows[key]
        self._sorted = None

    def close(self) -> None:
        pass
