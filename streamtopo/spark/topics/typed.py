"""Topics as typed columns: Spark decodes the bytes itself, like the serdes that the application declares."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType, VariantType

from streamtopo.errors import StreamtopoError
from streamtopo.logs.opening import SparkReader, directory_of, shown_log, spark_reader
from streamtopo.serdes import Serde, SerdeLike, serde_of, without_none
from streamtopo.spark.source.source import register
from streamtopo.spark.topics.connector import checked, options_of
from streamtopo.spark.topics.types import fields, is_struct, item_of, spark_type

RECORD = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
CORRUPT = "_corrupt"
_JSON = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


class Decoded(NamedTuple):
    value: Column
    fits: Column
    """Whether the bytes fit the declared type; nulls do."""


def read_topic(
    spark: SparkSession,
    log: str,
    topic: str,
    *,
    key: SerdeLike = bytes,
    value: SerdeLike = bytes,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The records of a topic: key and value as declared. The fields of a dataclass are columns too.

    A field with the name of another column (such as `timestamp`) is in `value` only. Keys and values that do not
    fit are null, and their bytes are in the column `_corrupt`. Options are those of the data source:
    Spark's own for Kafka.
    """
    if spark_reader(log) is SparkReader.KAFKA_CONNECTOR:
        reader = checked(spark).read.format("kafka").options(**options_of(log), subscribe=topic, includeHeaders="true")
        return typed(reader.options(**options or {}).load().drop("timestampType"), key, value)
    register(spark)
    reader = spark.read.format("streamtopo").option("path", path_of(log)).option("topic", topic)
    return typed(reader.options(**options or {}).load(), key, value)


def latest(records: DataFrame) -> DataFrame:
    """The rows of the topic as a table: the last value of each key that was not deleted."""
    last = records.groupBy("partition", "key").agg(F.max_by(F.struct("value"), "offset").alias("last"))
    return last.select("key", "last.value").where(F.col("value").isNotNull())


def newest(records: DataFrame) -> DataFrame:
    """The same, with only the newest value of a key that is in several partitions, as after partitions were added."""
    last = F.max_by(F.struct("value", F.coalesce(F.unix_millis("timestamp"), F.lit(0)).alias("at")), "offset")
    lasts = records.groupBy("partition", "key").agg(last.alias("last"))
    values = lasts.groupBy("key").agg(F.max_by("last.value", "last.at").alias("value"))
    return values.where(F.col("value").isNotNull())


def path_of(log: str) -> str:
    directory = directory_of(log)
    if directory is None:
        raise StreamtopoError(f'this works on embedded logs, not on "{shown_log(log)}"; give embedded:DIRECTORY')
    # Spark's own processes may have another working directory.
    return str(directory.absolute())


def typed(records: DataFrame, key: SerdeLike, value: SerdeLike) -> DataFrame:
    """The result of `read_topic`, from records with keys and values as bytes, batch or streaming."""
    kinds = {"key": _kind(key), "value": _kind(value)}
    others = [name for name in records.columns if name not in kinds]
    for name, kind in kinds.items():
        decoded = _decoded(F.col(name), kind)
        records = records.withColumns({f"_{name}": decoded.value, f"_{name}_fits": decoded.fits})
    corrupt = F.struct(*(F.when(~F.col(f"_{name}_fits"), F.col(name)).alias(name) for name in kinds))
    columns = [F.when(F.col(f"_{name}_fits"), F.col(f"_{name}")).alias(name) for name in kinds]
    shown = records.select(
        *columns, *others, F.when(~(F.col("_key_fits") & F.col("_value_fits")), corrupt).alias(CORRUPT)
    )
    value_fields = fields(kinds["value"]) if is_struct(kinds["value"]) else []
    taken = {name.lower() for name in shown.columns}  # for Spark, Offset is offset
    own = [field.name for field in value_fields if field.name.lower() not in taken]
    return shown.select("*", *(F.col(f"value.`{name}`").alias(name) for name in own))


def _kind(spec: SerdeLike) -> Any:
    serde = serde_of(spec)
    if serde.window_bytes:
        raise StreamtopoError(
            f'serde "{serde.name}" is for windowed keys, which have no columns; declare the keys as bytes'
        )
    if serde.kind is None:
        raise StreamtopoError(
            f'serde "{serde.name}" is made of Python functions, but Spark decodes bytes itself; declare the topic as '
            "bytes, and decode them with Spark's functions"
        )
    return spec if serde.kind is Any and not isinstance(spec, Serde) else serde.kind


def _decoded(column: Column, kind: Any) -> Decoded:
    decoded = _PLAIN[kind](column) if kind in _PLAIN else _json(column, kind)
    return Decoded(decoded.value, column.isNull() | F.coalesce(decoded.fits, F.lit(False)))


def _str(column: Column) -> Decoded:
    text = column.cast("string")
    return Decoded(text, F.is_valid_utf8(text))


def _int(column: Column) -> Decoded:
    """`conv` to a negative base reads 16 hexadecimal digits as a signed number."""
    fits = F.length(column) == 8
    return Decoded(F.when(fits, F.conv(F.hex(column), 16, -10).cast("long")), fits)


def _float(column: Column) -> Decoded:
    bits = _int(column)
    number = F.reflect(F.lit("java.lang.Double"), F.lit("longBitsToDouble"), bits.value).cast("double")
    return Decoded(F.when(bits.fits, number), bits.fits)


def _bool(column: Column) -> Decoded:
    byte = F.hex(column)
    return Decoded(byte == "01", byte.isin("00", "01"))


_PLAIN = {bytes: lambda column: Decoded(column, F.lit(True)), str: _str, int: _int, float: _float, bool: _bool}


# -- JSON


def _json(column: Column, kind: Any) -> Decoded:
    text = column.cast("string")
    shape = spark_type(kind)
    is_null = text == "null"
    if not isinstance(shape, StructType):
        is_open = isinstance(shape, VariantType)
        parsed = F.try_parse_json(text) if is_open else F.from_json(text, shape.simpleString())
        return Decoded(F.when(~is_null, parsed), is_null | parsed.isNotNull())
    parsed = F.from_json(text, StructType([*shape.fields]).add(CORRUPT, StringType()), _JSON)
    fits = parsed.isNotNull() & parsed[CORRUPT].isNull() & ~_lacks(parsed, kind) & F.is_valid_utf8(text)
    return Decoded(F.when(~is_null, _with_defaults(parsed, kind, text)), is_null | fits)


def _lacks(parsed: Column, kind: Any) -> Column:
    """Whether a field without a default is missing, here or in a nested dataclass."""
    missing = F.lit(False)
    for field in fields(kind):
        column = parsed.getField(field.name)
        if field.required:
            missing = missing | column.isNull()
        if (inside := _lacks_inside(column, field.kind)) is not None:
            missing = missing | inside
    return missing


def _lacks_inside(column: Column, kind: Any) -> Column | None:
    """The same for a dataclass that may be None, or for those in a collection; None if the type has no dataclass."""
    kind = without_none(kind)
    if is_struct(kind):
        return column.isNotNull() & _lacks(column, kind)
    item = item_of(kind)
    if item is None or _lacks_inside(column, item) is None:
        return None
    items = F.map_values(column) if typing.get_origin(kind) is dict else column
    return F.coalesce(F.exists(items, lambda one: cast("Column", _lacks_inside(one, item))), F.lit(False))


def _with_defaults(parsed: Column, kind: Any, text: Column) -> Column:
    """Fill in defaults of missing fields. Explicit nulls stay; names in the JSON are only read for null values."""

    def filled(name: str, default: Any) -> Column:
        column = parsed.getField(name)
        if default is None:
            return column.alias(name)
        written = F.array_contains(F.json_object_keys(text), name)
        return (
            F.when(column.isNotNull() | F.coalesce(written, F.lit(False)), column).otherwise(F.lit(default)).alias(name)
        )

    return F.struct(*(filled(field.name, field.default) for field in fields(kind)))
