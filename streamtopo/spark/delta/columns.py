"""The columns of tables: those of a frame as Delta has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from streamtopo.errors import StreamtopoError

_PLAIN = (
    BinaryType, BooleanType, DateType, DecimalType, DoubleType, FloatType, IntegralType, StringType, TimestampNTZType,
    TimestampType,
)  # fmt: skip


def columns_of(frame: DataFrame) -> dict[str, Any]:
    """The schema as JSON. Every column may be null, as in files of Spark's."""
    fields = [StructField(field.name, _nullable(field.name, field.dataType)) for field in frame.schema.fields]
    found: dict[str, Any] = json.loads(StructType(fields).json())
    return found


def schema_of(columns: Mapping[str, Any]) -> StructType:
    return StructType.fromJson(dict(columns))


def shown_columns(columns: Mapping[str, Any]) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema_of(columns).fields)


def _nullable(name: str, kind: DataType) -> DataType:
    match kind:
        case ArrayType():
            return ArrayType(_nullable(name, kind.elementType))
        case MapType():
            return MapType(_nullable(name, kind.keyType), _nullable(name, kind.valueType))
        case StructType():
            return StructType([StructField(one.name, _nullable(name, one.dataType)) for one in kind.fields])
        case _ if isinstance(kind, _PLAIN):
            return kind
    raise StreamtopoError(
        f"column {name} {kind.simpleString()} has no type in a Delta table; cast it, or use to_json({name})"
    )
