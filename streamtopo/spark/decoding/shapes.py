"""The Spark column of a type, and how it is filled: with values of the serde, or at once with parsed JSON."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from itertools import accumulate, chain, count, repeat
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, VariantType

from streamtopo.errors import TopologyError
from streamtopo.serdes import Serde
from streamtopo.serdes.exact_json import dumps, loads
from streamtopo.serdes.json_types import converter, members_of, plain_type, short_name, to_json
from streamtopo.spark.decoding import scalars
from streamtopo.spark.decoding.records import Record, record_of
from streamtopo.spark.decoding.scalars import Fill, Unheld, all_are, scalar_of
from streamtopo.spark.decoding.variants import texts

_ABSENT = object()
_ARRAYS = (list, set, frozenset, tuple)


class Shape(NamedTuple):
    spark: DataType
    of_values: Fill
    """An Arrow array of such values, or None. Raises for a value that a column of Spark cannot hold."""
    of_json: Fill
    """The same from parsed JSON. Raises unless it is plain that the serde makes these values of it."""

    @property
    def sent(self) -> DataType:
        """The type in which the column comes from Python: variants come as the text of their JSON."""
        return _sent(self.spark)


def shape_of(kind: Any, inside: tuple[Any, ...] = ()) -> Shape:
    """Made once for a type, and for the types inside it; `inside` are the types that it is part of."""
    kind = plain_type(kind)
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin is typing.Annotated:
        return shape_of(arguments[0], inside)
    if origin in (Union, UnionType):
        members = [member for member in arguments if member is not NoneType]
        return _optional(shape_of(members[0], inside)) if len(members) == 1 else _variant(kind)
    if origin in _ARRAYS or (origin is dict and arguments):
        return _collection(kind, origin, arguments or (Any,), inside)
    return _variant(kind) if kind in (Any, object, dict) else _single(kind, inside)


def _single(kind: Any, inside: tuple[Any, ...]) -> Shape:
    if (scalar := scalar_of(kind)) is not None:
        return _shape(scalar.spark, scalar.of_values, scalar.of_json or _by_serde(kind, scalar.of_values))
    if members := members_of(kind):
        return _choice(kind, members)
    return _struct(kind, inside)


def shape_of_windowed(key: Shape) -> Shape:
    """Keys with the time of their window."""
    time = scalars.MILLISECONDS
    types = {"key": key.spark, "start": time.spark, "end": time.spark}
    fields = StructType([StructField(name, kind) for name, kind in types.items()])

    def of_values(values: list[Any]) -> Any:
        keys, starts, ends = map(list, zip(*values, strict=True)) if values else ([], [], [])
        columns = [key.of_values(keys), time.of_values(starts), time.of_values(ends)]
        return pa.StructArray.from_arrays(columns, names=fields.fieldNames())

    return _shape(fields, of_values, _undecided)


def _shape(spark: DataType, of_values: Fill, of_json: Fill) -> Shape:
    return Shape(spark, lambda values: spread(of_values, values, None), of_json)


def spread(fill: Fill, column: list[Any], absent: Any) -> Any:
    """The array of those that are not absent, with null for the others."""
    there = [one for one in column if one is not absent]
    if len(there) == len(column):
        return fill(column)
    places = count()
    taken = pa.array([None if one is absent else next(places) for one in column], pa.int32())
    return fill(there).take(taken)


def _by_serde(kind: Any, of_values: Fill) -> Fill:
    convert = functools.cache(lambda: converter(kind))
    return lambda raws: of_values(list(map(convert(), raws)))


def _undecided(raws: list[Any]) -> Any:
    raise Unheld("only the serde reads this")


def _optional(shape: Shape) -> Shape:
    return shape._replace(of_json=lambda raws: spread(shape.of_json, raws, None))


def _variant(kind: Any) -> Shape:
    def of_values(values: list[Any]) -> Any:
        return pa.array(texts(kind, values), pa.string())

    convert = _by_serde(kind, lambda values: spread(of_values, values, None))
    return _shape(VariantType(), of_values, convert)


def _choice(kind: Any, members: list[Any]) -> Shape:
    """A Literal or an enum: the values of its members, if they have one type."""
    forms = {member: getattr(member, "value", member) for member in members if member is not None}
    kinds = set(map(type, forms.values()))
    scalar = scalar_of(kinds.pop()) if len(kinds) == 1 else None
    if scalar is None:
        return _variant(kind)
    allowed = {(type(member), member): form for member, form in forms.items()}

    def of_values(values: list[Any]) -> Any:
        return scalar.of_values([allowed[type(one), one] for one in values])

    of_json = _by_serde(kind, lambda values: spread(of_values, values, None))
    return _shape(scalar.spark, of_values, of_json)


# -- collections


def _collection(kind: Any, origin: type, arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> Shape:
    if origin is dict:
        return _map(kind, arguments[0], shape_of(arguments[1], inside))
    items = set(arguments) - {Ellipsis}
    if len(items) > 1:
        return _row(kind, [shape_of(argument, inside) for argument in arguments])
    return _array(kind, origin, shape_of(items.pop(), inside))


def _array(kind: Any, origin: type, item: Shape) -> Shape:
    def filled(fill: Fill, rows: list[Any]) -> Any:
        return pa.ListArray.from_arrays(_offsets(rows), fill(list(chain.from_iterable(rows))))

    def of_values(values: list[Any]) -> Any:
        all_are(origin, values)
        in_order = [sorted(one, key=repr) for one in values] if origin in (set, frozenset) else values
        return filled(item.of_values, in_order)

    def of_json(raws: list[Any]) -> Any:
        all_are(list, raws)
        return filled(item.of_json, raws)

    alike = origin is list or (origin is tuple and typing.get_args(kind)[-1:] == (Ellipsis,))
    return _shape(ArrayType(item.spark), of_values, of_json if alike else _by_serde(kind, of_values))


def _row(kind: Any, items: list[Shape]) -> Shape:
    """A tuple of several types: a struct with Spark's names for that."""
    shapes = {f"_{place}": item for place, item in enumerate(items, 1)}

    def of_values(values: list[Any]) -> Any:
        all_are(tuple, values)
        columns = map(list, zip(*values, strict=True)) if values else repeat([])
        arrays = [item.of_values(column) for item, column in zip(items, columns, strict=False)]
        return _joined(arrays, list(shapes), len(values))

    return _shape(_struct_type(shapes), of_values, _by_serde(kind, of_values))


def _map(kind: Any, key: Any, item: Shape) -> Shape:
    def filled(fill: Fill, rows: list[dict[Any, Any]], keys: list[str]) -> Any:
        values = fill(list(chain.from_iterable(map(dict.values, rows))))
        return pa.MapArray.from_arrays(_offsets(rows), pa.array(keys, pa.string()), values)

    def of_values(values: list[Any]) -> Any:
        all_are(dict, values)
        names = values if plain_type(key) is str else list(map(_key_texts, values))
        keys = list(chain.from_iterable(names))
        all_are(str, keys)
        return filled(item.of_values, values, keys)

    def of_json(raws: list[Any]) -> Any:
        all_are(dict, raws)
        return filled(item.of_json, raws, list(chain.from_iterable(raws)))

    shown = MapType(StringType(), item.spark)
    return _shape(shown, of_values, of_json if plain_type(key) is str else _by_serde(kind, of_values))


def _key_texts(value: dict[Any, Any]) -> list[str]:
    """The keys as they are in JSON."""
    found: dict[str, None] = loads(dumps(dict.fromkeys(value), to_json))
    if len(found) < len(value):
        raise Unheld("two keys are the same in JSON")
    return list(found)


def _offsets(rows: list[Any]) -> Any:
    return pa.array(list(accumulate(map(len, rows), initial=0)), pa.int32())


# -- records


def _struct(kind: Any, inside: tuple[Any, ...]) -> Shape:
    record = record_of(kind)
    if record is None:
        raise TopologyError(
            f"there are no Spark columns for {short_name(kind)}; declare a dataclass, a TypedDict or a model of "
            "plain types"
        )
    if kind in inside:
        raise TopologyError(
            f"{kind.__name__} contains itself, and Spark has no type for that; declare that field as Any"
        )
    shapes = {name: shape_of(hint, (*inside, kind)) for name, hint in record.fields.items()}
    spark = _struct_type(shapes)
    fill = _of_dicts(record, shapes) if record.is_dict else _of_objects(kind, shapes)
    if not record.is_plain:
        return _shape(spark, fill, _by_serde(kind, fill))
    return _shape(spark, fill, _of_parsed(record, shapes))


def _of_objects(kind: Any, shapes: dict[str, Shape]) -> Fill:
    def fill(values: list[Any]) -> Any:
        all_are(kind, values)
        columns = [shape.of_values(_attributes(name, values)) for name, shape in shapes.items()]
        return _joined(columns, list(shapes), len(values))

    return fill


def _attributes(name: str, values: list[Any]) -> list[Any]:
    """A field that its class does not set may be missing in the object too."""
    try:
        return list(map(attrgetter(name), values))
    except AttributeError:
        return [getattr(value, name, None) for value in values]


def _of_dicts(record: Record, shapes: dict[str, Shape]) -> Fill:
    def fill(values: list[Any]) -> Any:
        all_are(dict, values)
        columns = [shape.of_values([value.get(name) for value in values]) for name, shape in shapes.items()]
        return _joined(columns, list(shapes), len(values))

    return fill


def _of_parsed(record: Record, shapes: dict[str, Shape]) -> Fill:
    def column(name: str, shape: Shape, raws: list[Any]) -> Any:
        if record.is_dict:  # every field may be missing
            return spread(shape.of_json, [raw.get(name, _ABSENT) for raw in raws], _ABSENT)
        if name in record.defaults:
            default = record.defaults[name]
            return shape.of_json([raw.get(name, default) for raw in raws])
        return shape.of_json(list(map(itemgetter(name), raws)))

    def fill(raws: list[Any]) -> Any:
        all_are(dict, raws)
        return _joined([column(name, shape, raws) for name, shape in shapes.items()], list(shapes), len(raws))

    return fill


def _struct_type(shapes: dict[str, Shape]) -> StructType:
    return StructType([StructField(name, shape.spark) for name, shape in shapes.items()])


def _joined(columns: list[Any], names: list[str], rows: int) -> Any:
    return pa.StructArray.from_arrays(columns, names=names) if names else pa.array([{}] * rows, pa.struct([]))


# -- the column of a serde


def shape_of_serde(serde: Serde) -> Shape:
    if serde.window_bytes and serde.inner is not None:
        return shape_of_windowed(shape_of_serde(serde.inner))
    return shape_of(kind_of(serde))


def kind_of(serde: Serde) -> Any:
    """The type of its values: as declared, or as its functions say."""
    if serde.kind is not None:
        return serde.kind
    for function, name in ((serde.decode, "return"), (serde.encode, None)):
        if (kind := _annotated(function, name)) is not None:
            return kind
    raise TopologyError(
        f'serde "{serde.name}" does not say what it decodes to, so Spark has no column for it; annotate what its '
        "function decode returns, or declare the topic as bytes"
    )


def _annotated(function: Callable[..., Any], name: str | None) -> Any:
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):
        return None
    if name is None:
        hints.pop("return", None)
        return next(iter(hints.values()), None)
    return hints.get(name)


def _sent(spark: DataType) -> DataType:
    if isinstance(spark, VariantType):
        return StringType()
    if isinstance(spark, ArrayType):
        return ArrayType(_sent(spark.elementType))
    if isinstance(spark, MapType):
        return MapType(spark.keyType, _sent(spark.valueType))
    if isinstance(spark, StructType):
        return StructType([StructField(field.name, _sent(field.dataType)) for field in spark.fields])
    return spark
