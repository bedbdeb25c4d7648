"""Converts the types that serdes are declared with to Spark's types: the columns for the JSON of a dataclass."""

from __future__ import annotations

import dataclasses
import types
import typing
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NamedTuple, Union
from uuid import UUID

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from streamtopo.errors import TopologyError

_SCALARS: dict[Any, DataType] = {
    str: StringType(),
    int: LongType(),
    float: DoubleType(),
    bool: BooleanType(),
    datetime: TimestampType(),
    date: DateType(),
    time: StringType(),
    UUID: StringType(),
    Decimal: DecimalType(38, 18),
}


class Field(NamedTuple):
    name: str
    kind: Any
    required: bool
    default: Any = None
    """A plain value. Fields with other defaults, such as lists, are null if they are missing."""


def spark_type(kind: Any, inside: tuple[Any, ...] = ()) -> DataType:
    """The Spark type for JSON of this type; a variant where the type is not specific."""
    kind = getattr(kind, "__supertype__", kind)
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (Union, types.UnionType):
        members = [member for member in arguments if member is not types.NoneType]
        return spark_type(members[0], inside) if len(members) == 1 else VariantType()
    if origin in (list, set, frozenset, tuple):
        items = set(arguments) - {Ellipsis}
        return ArrayType(spark_type(items.pop(), inside) if len(items) == 1 else VariantType())
    if origin is dict and arguments:
        return MapType(StringType(), spark_type(arguments[1], inside))
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        values = [getattr(member, "value", member) for member in arguments or kind]
        return _SCALARS.get(type(values[0]), StringType()) if len(set(map(type, values))) == 1 else VariantType()
    if kind in (Any, object, dict):
        return VariantType()
    return _SCALARS.get(kind) or _struct(kind, inside)


def _struct(kind: Any, inside: tuple[Any, ...]) -> StructType:
    if not is_struct(kind):
        raise TopologyError(f"there are no Spark columns for {kind}; declare a dataclass or a TypedDict of plain types")
    if kind in inside:
        raise TopologyError(
            f"{kind.__name__} contains itself, and Spark has no type for that; declare that field as Any"
        )
    inner = (*inside, kind)
    return StructType([StructField(field.name, spark_type(field.kind, inner)) for field in fields(kind)])


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind))


def fields(kind: Any) -> list[Field]:
    """All fields of a TypedDict may be missing, as for its serde."""
    hints = typing.get_type_hints(kind)
    if typing.is_typeddict(kind):
        return [Field(name, hint, required=False) for name, hint in hints.items()]
    return [_field(field, hints[field.name]) for field in dataclasses.fields(kind)]


def _field(field: dataclasses.Field[Any], kind: Any) -> Field:
    missing = dataclasses.MISSING
    default = field.default if isinstance(field.default, str | int | float | bool) else None
    required = field.init and field.default is missing and field.default_factory is missing
    return Field(field.name, kind, required and not _optional(kind), default)


def item_of(kind: Any) -> Any:
    """The item type of a collection, if there is only one."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is dict:
        return arguments[1]
    items = set(arguments) - {Ellipsis}
    return items.pop() if origin in (list, set, frozenset, tuple) and len(items) == 1 else None


def _optional(kind: Any) -> bool:
    return kind in (Any, object) or types.NoneType in typing.get_args(kind)
