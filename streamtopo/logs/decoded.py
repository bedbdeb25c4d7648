"""Scans of logs whose records are decoded when they are read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from streamtopo.logs import Log
from streamtopo.records import Columns, TopicPartition

_ROWS, _BYTES = 5_000, 4 << 20


class DecodedBatch(NamedTuple):
    """A LazyBatch that has nothing left to decode."""

    records: Columns
    offsets: Sequence[int]

    def timestamps(self) -> list[int]:
        return self.records.timestamps

    def keys(self) -> list[bytes | None]:
        return self.records.keys

    def headers(self, names: Collection[str]) -> dict[str, list[bytes | None]]:
        rows = [dict(row) for row in self.records.headers or ()]
        there = {name for row in rows for name in row}
        return {name: [row.get(name) for row in rows] for name in there.intersection(names)}

    def columns(self) -> Columns:
        return self.records


def scanned(log: Log, source: TopicPartition, start: int, end: int) -> Iterator[DecodedBatch]:
    """It ends early at records that are not committed yet."""
    position = max(start, log.start(source)) if start < end else end
    while position < end:
        batch = log.read(source, position, _ROWS, _BYTES)
        inside = sum(offset < end for offset in batch.offsets)
        if inside:
            yield DecodedBatch(
                Columns(*(column and column[:inside] for column in batch.columns)),  # type: ignore[arg-type]
                batch.offsets[:inside],
            )
        elif batch.next_offset == position:
            return
        # Records that were deleted in the meantime are skipped.
        position = max(batch.next_offset, log.start(source))
