"""The columns of the data source, which are those of Spark's Kafka source, made from record batches of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from streamtopo.errors import LogError
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark.decoding.decoding import decoding_of

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
TYPES: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "headers": HEADERS,
    "timestampType": IntegerType(),
}
SCHEMA = StructType([StructField(name, kind) for name, kind in TYPES.items() if name != "timestampType"])

ROWS = 10_000
"""Small batches are joined up to this many rows: each batch costs Spark as much as about a thousand rows."""
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_MOST = (1 << 63) // 1000 - 1


def asked(schema: StructType, serdes: str | None) -> list[str]:
    """The names of the columns to read, for a schema with columns that are decoded by the serdes."""
    names = [name for name in schema.fieldNames() if name in TYPES]
    records = StructType([StructField(name, TYPES[name]) for name in names])
    here = records if serdes is None else decoding_of(serdes).schema(records)
    types = dict(TYPES) | {field.name: field.dataType for field in here.fields}
    for field in schema.fields:
        if types.get(field.name) != field.dataType:
            known = ", ".join(f"{name} {kind.simpleString()}" for name, kind in types.items())
            raise LogError(f"a topic has no column {field.name} {field.dataType.simpleString()}; it has {known}")
    return names


def batches(found: Iterable[Any], source: TopicPartition, names: list[str]) -> Iterator[Any]:
    """The columns with these names, in batches that are large enough to send."""
    waiting: list[Any] = []
    rows = 0
    for batch in found:
        waiting.append(_shaped(batch, source, names))
        rows += batch.num_rows
        if rows >= ROWS:
            yield from _joined(waiting)
            waiting, rows = [], 0
    yield from _joined(waiting)


def _joined(waiting: list[Any]) -> list[Any]:
    if len(waiting) < 2:
        return waiting
    joined: list[Any] = pa.Table.from_batches(waiting).combine_chunks().to_batches()
    return joined


def _shaped(batch: Any, source: TopicPartition, names: list[str]) -> Any:
    return pa.RecordBatch.from_arrays([_COLUMNS[name](batch, source) for name in names], names=names)


def _own(name: str) -> Callable[[Any, TopicPartition], Any]:
    return lambda batch, _: batch.column(name)


def _timestamps(batch: Any, _: TopicPartition) -> Any:
    """Times in microseconds; null if they do not fit into 63 bits."""
    column = batch.column("timestamp")
    ends = pc.min_max(column).as_py()
    if ends["min"] < -_MOST or ends["max"] > _MOST:
        fits = pc.and_(pc.greater_equal(column, -_MOST), pc.less_equal(column, _MOST))
        column = pc.if_else(fits, column, pa.scalar(None, pa.int64()))
    return column.cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))


def _headers(batch: Any, _: TopicPartition) -> Any:
    """The headers; null if a batch has none."""
    if "headers" in batch.schema.names:
        return batch.column("headers").cast(_HEADERS)
    return pa.nulls(batch.num_rows, _HEADERS)


_COLUMNS: Mapping[str, Callable[[Any, TopicPartition], Any]] = {
    "key": _own("key"),
    "value": _own("value"),
    "offset": _own("offset"),
    "topic": lambda batch, source: pa.repeat(source.topic, batch.num_rows),
    "partition": lambda batch, source: pa.repeat(pa.scalar(source.partition, pa.int32()), batch.num_rows),
    "timestamp": _timestamps,
    "timestampType": lambda batch, _: pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows),
    "headers": _headers,
}


# -- and back

_WRITTEN = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": (HEADERS.simpleString(),),
}


def check_written(schema: StructType) -> None:
    for field in schema.fields:
        if field.dataType.simpleString() not in _WRITTEN.get(field.name, ()):
            known = "; ".join(f"{name}: {' or '.join(kinds)}" for name, kinds in _WRITTEN.items())
            raise LogError(
                f"column {field.name} {field.dataType.simpleString()} cannot be written to a topic. It takes {known}; "
                "to_json(struct(*)) converts columns to JSON"
            )
    if "value" not in schema.fieldNames():
        raise LogError('a column "value" is needed to write to a topic; to_json(struct(*)) converts columns to JSON')


def to_log(batch: Any, now: int) -> tuple[Columns, list[int | None] | None]:
    """The records, and their partitions if there is such a column; None in it means the partition of the key."""
    given = {name: batch.column(name) for name in batch.schema.names}
    values = given["value"].cast(pa.binary()).to_pylist()
    keys = given["key"].cast(pa.binary()).to_pylist() if "key" in given else [None] * batch.num_rows
    timestamps = [now] * batch.num_rows
    if "timestamp" in given:
        micros = given["timestamp"].cast(pa.int64()).to_pylist()
        timestamps = [now if micro is None else micro // 1000 for micro in micros]
    headers = None
    if "headers" in given:
        rows = given["headers"].to_pylist()
        headers = [tuple((one["key"], one["value"]) for one in row or ()) for row in rows]
    return Columns(keys, values, timestamps, headers), given["partition"].to_pylist() if "partition" in given else None
