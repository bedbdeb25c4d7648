"""Merged rows of several parts, which refuse from time to time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamtopo.engine.task.options import TaskId
from streamtopo.hosting.answers import NotOwner, Restoring
from streamtopo.hosting.queries.merged_rows import MergedRows
from streamtopo.hosting.queries.scanning import RowIterator, ScanBounds, StorePart, StoreTimes, rows_in
from streamtopo.serdes import BYTES
from streamtopo.stores import StoreSpec
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.rows.layout import prefix_of

SPEC = StoreSpec("rows", BYTES, BYTES)
names = st.binary(max_size=2)


class Moving:
    """Stores whose tasks go away after this many rows, and come back for the next scan."""

    def __init__(self, parts: list[set[bytes]], moves: list[int]) -> None:
        self._stores = [MemoryStore() for _ in parts]
        for number, keys in enumerate(parts):
            self._stores[number].write({prefix_of("rows") + key: b"%d" % number for key in keys}, {})
        self._moves = moves

    def scan(self, part: StorePart, bounds: ScanBounds) -> RowIterator:
        for row in rows_in(self._stores[part.task.partition], SPEC, bounds, StoreTimes(-1, -1)):
            if self._moves:
                self._moves[-1] -= 1
                if self._moves[-1] < 0:
                    raise [NotOwner, Restoring][self._moves.pop() % 2]("rows", part.task.partition)
            yield row


@given(
    parts=st.lists(st.sets(names, max_size=8), min_size=1, max_size=4),
    moves=st.lists(st.integers(0, 6), max_size=6),
    start=names,
    stop=st.one_of(st.none(), names),
    reverse=st.booleans(),
)
def test_every_row_comes_once_and_in_order(
    parts: list[set[bytes]], moves: list[int], start: bytes, stop: bytes | None, reverse: bool
) -> None:
    places = [StorePart("rows", TaskId(0, number)) for number in range(len(parts))]
    reading = MergedRows(Moving(parts, moves), places, ScanBounds(start, stop, reverse))
    found = []
    while True:
        try:
            found += [next(reading)]
        except (NotOwner, Restoring):
            continue
        except StopIteration:
            break
    expected = [(key, b"%d" % number) for number, keys in enumerate(parts) for key in keys]
    inside = [row for row in expected if start <= row[0] and (stop is None or row[0] < stop)]
    assert found == sorted(sorted(inside, key=lambda row: row[1]), key=lambda row: row[0], reverse=reverse)
