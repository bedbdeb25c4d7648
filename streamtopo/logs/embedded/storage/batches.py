"""Records as Arrow record batches: columns to bytes and back, without Python code for each record."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from streamtopo.errors import LogError
from streamtopo.logs.embedded.storage.checksums import StoredBatch, damaged, intact
from streamtopo.records import Columns, Headers, TopicPartition, join_columns, join_offsets

MOST_BYTES = 1 << 20
MOST_ROWS = 10_000

_LARGE_HEADERS = 512
"""Bytes of headers per record. Only dead letters have so many: tracebacks, which repeat. Compressed, a tenth of them is
left, and they are read in half of the time."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
"""For a batch of a megabyte, several threads would take four times as long."""

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_PLAIN = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64())])
_HEADED = _PLAIN.append(pa.field("headers", _HEADERS))
_OFFSET = pa.field("offset", pa.int64())
_SCHEMAS = (_PLAIN, _HEADED, _PLAIN.append(_OFFSET), _HEADED.append(_OFFSET))


class EncodedBatch(NamedTuple):
    """One batch, ready to be stored; `offsets` is None if they are consecutive."""

    rows: int
    min_timestamp: int
    max_timestamp: int
    data: Any
    offsets: list[int] | None = None

    @property
    def size(self) -> int:
        return len(self.data)


def encode(columns: Columns) -> list[EncodedBatch]:
    """The records in batches of at most a megabyte, or one record."""
    rows = len(columns.keys)
    if rows > MOST_ROWS:
        starts = range(0, rows, MOST_ROWS)
        return [piece for start in starts for piece in encode(_slice(columns, start, start + MOST_ROWS))]
    if not rows:
        return []
    arrays = _arrays(columns)
    if any(isinstance(array, pa.ChunkedArray) for array in arrays):  # more than 2 GB in a column
        half = rows // 2
        return encode(_slice(columns, 0, half)) + encode(_slice(columns, half, rows))
    batch = pa.RecordBatch.from_arrays(arrays, schema=_PLAIN if columns.headers is None else _HEADED)
    return [_encoded(piece) for piece in _cut(batch)]


def _arrays(columns: Columns) -> list[Any]:
    try:
        arrays = [
            pa.array(columns.keys, pa.binary()),
            pa.array(columns.values, pa.binary()),
            pa.array(columns.timestamps, pa.int64()),
        ]
        if columns.headers is not None:
            arrays.append(pa.array(columns.headers, _HEADERS))
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise LogError(
            f"records cannot be written: {error}; give keys and values as bytes or None, timestamps as an int in "
            "milliseconds, and headers as pairs of str and bytes or None"
        ) from error
    return arrays


def _slice(columns: Columns, start: int, stop: int) -> Columns:
    return Columns(*(column and column[start:stop] for column in columns))  # type: ignore[arg-type]


def _cut(batch: Any) -> Iterator[Any]:
    if batch.nbytes <= MOST_BYTES or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _cut(batch.slice(0, half))
    yield from _cut(batch.slice(half))


def _encoded(batch: Any) -> EncodedBatch:
    oldest, newest = pc.min_max(batch.column(2)).as_py().values()
    sink = pa.BufferOutputStream()
    large = "headers" in batch.schema.names and batch.column("headers").nbytes > _LARGE_HEADERS * batch.num_rows
    with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED if large else None) as writer:
        writer.write_batch(batch)
    offsets = batch.column("offset").to_pylist() if "offset" in batch.schema.names else None
    return EncodedBatch(batch.num_rows, oldest, newest, sink.getvalue(), offsets)


def opened(blob: StoredBatch, source: TopicPartition) -> Any:
    """The record batch in it. It is checked first, as Arrow trusts the bytes, and may crash if they are damaged."""
    if not intact(blob):
        raise damaged(source, blob.base, blob.last, "its checksum is wrong")
    try:
        batch = pa.ipc.open_stream(blob.data, options=_ONE_THREAD).read_next_batch()
        if blob.crc is None:
            _validate(batch, blob)
    except (pa.ArrowException, OSError, ValueError, StopIteration) as error:
        raise damaged(source, blob.base, blob.last, str(error) or "it ends before its records") from error
    return batch


def _validate(batch: Any, blob: StoredBatch) -> None:
    """A batch without a checksum may have wrong values, but this makes sure that they can be read."""
    batch.validate(full=True)
    if batch.schema not in _SCHEMAS or batch.num_rows != blob.rows:
        raise ValueError("its columns, or the number of its records, are wrong")
    offsets = batch.column("offset").to_pylist() if "offset" in batch.schema.names else range(blob.base, blob.last + 1)
    if len(offsets) != blob.rows or (offsets[0], offsets[-1]) != (blob.base, blob.last):
        raise ValueError("its offsets are wrong")


class BatchView:
    """Some records of a stored batch: a view of its bytes, which are decoded on demand."""

    __slots__ = ("_base", "_batch", "_gaps")

    def __init__(self, batch: Any, base: int, gaps: list[int] | None) -> None:
        self._batch = batch
        self._base = base
        self._gaps = gaps

    @classmethod
    def open(cls, blob: StoredBatch, source: TopicPartition) -> BatchView:
        batch = opened(blob, source)
        gaps = batch.column("offset").to_pylist() if "offset" in batch.schema.names else None
        return cls(batch, blob.base, gaps)

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @property
    def offsets(self) -> Sequence[int]:
        return range(self._base, self._base + len(self)) if self._gaps is None else self._gaps

    def since(self, offset: int) -> BatchView:
        """Without the records before this offset."""
        return self.rows(bisect_left(self.offsets, offset), len(self))

    def rows(self, start: int, stop: int) -> BatchView:
        if start <= 0 and stop >= len(self):
            return self
        gaps = None if self._gaps is None else self._gaps[start:stop]
        return BatchView(self._batch.slice(start, max(0, stop - start)), self._base + start, gaps)

    def columns(self) -> Columns:
        keys, values, timestamps = (self._batch.column(place).to_pylist() for place in range(3))
        return Columns(keys, values, timestamps, self._headers())

    def keys(self) -> list[bytes | None]:
        keys: list[bytes | None] = self._batch.column(0).to_pylist()
        return keys

    def timestamps(self) -> list[int]:
        timestamps: list[int] = self._batch.column(2).to_pylist()
        return timestamps

    @property
    def key_bytes(self) -> int:
        return int(self._batch.column(0).nbytes)

    def tombstones(self) -> list[bool] | None:
        """Whether each row has no value; None if all have one."""
        values = self._batch.column(1)
        return values.is_null().to_pylist() if values.null_count else None

    def _headers(self) -> list[Headers] | None:
        if "headers" not in self._batch.schema.names:
            return None
        column = self._batch.column("headers")
        pairs = column.flatten()
        flat = list(zip(pairs.field("key").to_pylist(), pairs.field("value").to_pylist(), strict=True))
        ends = column.offsets.to_pylist()
        first = ends[0]
        return [tuple(flat[start - first : end - first]) for start, end in pairwise(ends)]

    def header_column(self) -> Any:
        """The lists of headers, also if no record has any."""
        return self._batch.column("headers") if self.headed else pa.array([()] * len(self), _HEADERS)

    def select(self, mask: list[bool], *, headed: bool) -> Any:
        """The rows where the mask is true, with their offsets as a column."""
        columns = [self._batch.column(place) for place in range(3)]
        schema = _HEADED if headed else _PLAIN
        if headed:
            columns.append(self.header_column())
        columns.append(pa.array(self.offsets, pa.int64()))
        whole = pa.RecordBatch.from_arrays(columns, schema=schema.append(_OFFSET))
        return whole.filter(pa.array(mask, pa.bool_()))

    @property
    def headed(self) -> bool:
        return "headers" in self._batch.schema.names


def merge(runs: Sequence[BatchView], masks: Sequence[list[bool]]) -> list[EncodedBatch]:
    """The chosen rows of several batches in one batch, or as few as possible."""
    headed = any(run.headed for run in runs)
    chosen = [run.select(mask, headed=headed) for run, mask in zip(runs, masks, strict=True)]
    merged = pa.Table.from_batches(chosen).combine_chunks().to_batches()
    return [_encoded(piece) for batch in merged if batch.num_rows for piece in _cut(batch)]


def cut(runs: Sequence[BatchView], limit: int) -> tuple[list[BatchView], BatchView | None, bool]:
    """Up to `limit` records; the rest of the last view that they are from; whether no view follows that one."""
    given = []
    for place, run in enumerate(runs):
        given.append(run.rows(0, limit))
        if len(run) >= limit:
            rest = run.rows(limit, len(run)) if len(run) > limit else None
            return given, rest, place == len(runs) - 1
        limit -= len(run)
    return given, None, True


def join_views(runs: Sequence[BatchView]) -> tuple[Columns, Sequence[int]]:
    """The records of the views, in order, and their offsets."""
    if len(runs) == 1:
        return runs[0].columns(), runs[0].offsets
    if not runs:
        return Columns([], [], []), []
    return join_columns([run.columns() for run in runs]), join_offsets([run.offsets for run in runs])
