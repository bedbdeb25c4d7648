"""Topics as typed columns: what the serdes of the application read, and apart from it the bytes that they refuse."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from streamtopo.errors import StreamtopoError
from streamtopo.logs.opening import SparkReader, directory_of, shown_log, spark_reader
from streamtopo.serdes import BOOL, BYTES, FLOAT, INT, STR, Serde, SerdeLike, serde_of
from streamtopo.spark.decoding.decoding import Decoding, batches, corrupt
from streamtopo.spark.source.source import register
from streamtopo.spark.topics.connector import checked, options_of

CORRUPT = "_corrupt"


class Types(NamedTuple):
    """How the keys and values of a topic are decoded."""

    key: Serde = BYTES
    value: Serde = BYTES

    @property
    def in_python(self) -> Decoding | None:
        """What the serdes decode in Spark's Python processes; None if Spark's own functions do the same."""
        return _in_python(self)

    @property
    def options(self) -> dict[str, str]:
        """For the data source: it decodes what it reads."""
        return {} if self.in_python is None else {"serdes": self.in_python.text()}

    def schema(self, records: StructType) -> StructType:
        """The columns of the data source with these options."""
        return records if self.in_python is None else self.in_python.schema(records)

    def decoded(self, records: DataFrame) -> DataFrame:
        """The same columns, from those of another source."""
        if self.in_python is None:
            return records
        text = self.in_python.text()
        return records.mapInArrow(lambda found: batches(text, found), self.schema(records.schema))

    def shown(self, records: DataFrame) -> DataFrame:
        """The columns of `read_topic`, from those of the data source with these options."""
        columns = {name: _column(name, serde, self.in_python) for name, serde in self._asdict().items()}
        others = [name for name in records.columns if name not in columns and not name.startswith("_")]
        wrong = F.struct(*(column.wrong.alias(name) for name, column in columns.items()))
        any_wrong = columns["key"].wrong.isNotNull() | columns["value"].wrong.isNotNull()
        found = records.select(
            *(column.value.alias(name) for name, column in columns.items()),
            *others,
            F.when(any_wrong, wrong).alias(CORRUPT),
        )
        taken = {name.lower() for name in found.columns}  # for Spark, Offset is offset
        shape = found.schema["value"].dataType
        names = shape.fieldNames() if isinstance(shape, StructType) else []
        own = [name for name in names if name.lower() not in taken]
        return found.select("*", *(F.col("value").getField(name).alias(name) for name in own))


@functools.lru_cache(maxsize=64)
def _in_python(types: Types) -> Decoding | None:
    serdes = {name: serde for name, serde in types._asdict().items() if serde not in _IN_SPARK}
    return Decoding(serdes) if serdes else None


def types_of(key: SerdeLike, value: SerdeLike) -> Types:
    return Types(serde_of(key), serde_of(value))


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
    types = types_of(key, value)
    if spark_reader(log) is SparkReader.KAFKA_CONNECTOR:
        reader = checked(spark).read.format("kafka").options(**options_of(log), subscribe=topic, includeHeaders="true")
        return types.shown(types.decoded(reader.options(**options or {}).load().drop("timestampType")))
    register(spark)
    reader = spark.read.format("streamtopo").options(path=path_of(log), topic=topic, **types.options)
    return types.shown(reader.options(**options or {}).load())


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


# -- columns


class Decoded(NamedTuple):
    value: Column
    wrong: Column
    """The bytes that do not fit; null for those that do, and for null."""


def _column(name: str, serde: Serde, decoding: Decoding | None) -> Decoded:
    column = F.col(name)
    if serde in _IN_SPARK:
        value, fits = _IN_SPARK[serde](column)
        fits = column.isNull() | F.coalesce(fits, F.lit(False))
        return Decoded(F.when(fits, value), F.when(~fits, column))
    assert decoding is not None
    return Decoded(_opened(column, decoding.decoders[name].shape.spark), F.col(corrupt(name)))


def _opened(column: Column, kind: DataType) -> Column:
    """The column with variants, of which Python passes on the JSON."""
    if not _has_variants(kind):
        return column
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda one: _opened(one, kind.elementType))
    if isinstance(kind, MapType):
        return F.transform_values(column, lambda _, one: _opened(one, kind.valueType))
    if isinstance(kind, StructType):
        fields = [_opened(column.getField(field.name), field.dataType).alias(field.name) for field in kind.fields]
        return F.when(column.isNotNull(), F.struct(*fields))
    return F.parse_json(column)


def _has_variants(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_variants(kind.elementType)
    if isinstance(kind, MapType):
        return _has_variants(kind.valueType)
    if isinstance(kind, StructType):
        return any(_has_variants(field.dataType) for field in kind.fields)
    return isinstance(kind, VariantType)


# -- what Spark decodes itself: the value, and whether the bytes fit


def _str(column: Column) -> tuple[Column, Column]:
    text = column.cast("string")
    return text, F.is_valid_utf8(text)


def _int(column: Column) -> tuple[Column, Column]:
    """`conv` to a negative base reads 16 hexadecimal digits as a signed number."""
    fits = F.length(column) == 8
    return F.when(fits, F.conv(F.hex(column), 16, -10).cast("long")), fits


def _float(column: Column) -> tuple[Column, Column]:
    bits, fits = _int(column)
    number = F.reflect(F.lit("java.lang.Double"), F.lit("longBitsToDouble"), bits).cast("double")
    return F.when(fits, number), fits


def _bool(column: Column) -> tuple[Column, Column]:
    byte = F.hex(column)
    return byte == "01", byte.isin("00", "01")


_IN_SPARK: dict[Serde, Callable[[Column], tuple[Column, Column]]] = {
    BYTES: lambda column: (column, F.lit(True)),
    STR: _str,
    INT: _int,
    FLOAT: _float,
    BOOL: _bool,
}
