"""Converts parsed JSON to typed Python values, with one closure per type, built once; and back, for orjson."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from itertools import count, repeat
from typing import Any, Literal, Union
from uuid import UUID

from streamtopo.errors import SerdeError, TopologyError
from streamtopo.serdes.exact_json import dumps, loads

Convert = Callable[[Any], Any]
_OBJECTS = ("__dataclass_fields__", "__struct_fields__", "model_validate", "__total__")
_PARSERS: dict[Any, Convert] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    UUID: UUID,
    Decimal: lambda raw: Decimal(str(raw)),
}


class Misfit(Exception):
    """A value does not fit the type; `place` grows from the inside out while the error travels up."""

    place = ""


def shown(value: object) -> str:
    """The type and a short form of a value, for errors."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"


def short_name(kind: Any) -> str:
    return str(kind if typing.get_origin(kind) else getattr(kind, "__name__", kind))


def converter(kind: Any) -> Convert:
    """A function that converts the result of `orjson.loads` to `kind`; its SerdeError names the place that is wrong."""
    inner, root = _build(kind, {}), short_name(kind)

    def convert(raw: Any) -> Any:
        try:
            return inner(raw)
        except Misfit as misfit:
            raise SerdeError(f"{root}{misfit.place}: {misfit}") from misfit.__cause__

    return convert


def time_to_json(value: Any) -> str:
    """orjson 3.13 writes a `time` of 10 ms as 100 ms, so it must not write times itself."""
    if isinstance(value, (date, time)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def to_json(value: Any) -> Any:
    """The `default` of orjson: converts types that it does not know to types that it knows."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)  # a set's own order differs from process to process
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, warnings=False)
    if hasattr(value, "__struct_fields__"):
        return __import__("msgspec").to_builtins(value, str_keys=True)
    if dataclasses.is_dataclass(
        value
    ):  # only for keys: orjson sorts dicts, but not dataclasses, which it writes itself
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return time_to_json(value)


def _build(kind: Any, built: dict[Any, Convert]) -> Convert:
    kind = plain_type(kind)
    if kind not in built:
        built[kind] = _container(kind, built) or _model(kind, built) or _scalar(kind)
    return built[kind]


def plain_type(kind: Any) -> Any:
    """A NewType is a different type for the type checker only."""
    return plain_type(kind.__supertype__) if hasattr(kind, "__supertype__") else kind


def _container(kind: Any, built: dict[Any, Convert]) -> Convert | None:
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(kind, [argument for argument in arguments if argument is not types.NoneType], built)
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return _sequence(tuple, [_build(argument, built) for argument in arguments])
    if origin in (list, tuple, set, frozenset):
        return _sequence(origin, repeat(_build(arguments[0] if arguments else Any, built)))
    if origin is dict:
        key, value = arguments or (str, Any)
        return _dict(_key(key), _build(value, built))
    return None


def _model(kind: Any, built: dict[Any, Convert]) -> Convert | None:
    if hasattr(kind, "model_validate"):
        return _parsed(kind, kind.model_validate)
    if hasattr(kind, "__struct_fields__"):
        convert = __import__("msgspec").convert
        return _parsed(kind, lambda raw: convert(raw, kind, str_keys=True))
    return _fields(kind, built) if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) else None


def _scalar(kind: Any) -> Convert:
    if kind in (Any, object):
        return lambda raw: raw
    if kind in (str, int, bool, float):
        return _checked(kind)
    if members := members_of(kind):
        return _parsed(kind, _chosen(kind, members))
    if kind in _PARSERS:
        return _parsed(kind, _PARSERS[kind])
    raise TopologyError(
        f"{short_name(kind)} cannot be written as JSON; use dataclasses, TypedDict, pydantic, msgspec models, "
        'collections, Enum, datetime, UUID, Decimal and plain types, or write a Serde("name", encode, decode)'
    )


def members_of(kind: Any) -> list[Any]:
    """All values of a type with a small, known set of values."""
    if typing.get_origin(kind) is Literal:
        return list(typing.get_args(kind))
    return list(kind) if isinstance(kind, type) and issubclass(kind, Enum) else [False, True] if kind is bool else []


def _chosen(kind: Any, members: list[Any]) -> Convert:
    """Converts JSON to the member of an enum or a Literal; an enum may accept more forms than those of its members."""
    forms = _forms(kind, members, lambda member: member)
    if isinstance(kind, type) and all(_is_made_of(kind, form, member) for form, member in forms):
        return kind
    as_they_are = {member: member for form, member in forms if type(form) is type(member)}
    if len(as_they_are) == len(members):
        return as_they_are.__getitem__
    found = {dumps(form, to_json): member for form, member in forms}
    return lambda raw: found[dumps(raw, to_json)]


def _is_made_of(kind: type, form: Any, member: Any) -> bool:
    try:
        return kind(form) is member
    except (ValueError, TypeError):
        return False


def _forms(kind: Any, members: list[Any], place: Convert) -> list[tuple[Any, Any]]:
    """The JSON form of each member."""
    try:
        forms = [(loads(dumps(place(member), to_json)), member) for member in members]
    except TypeError as error:
        raise TopologyError(f"a member of {short_name(kind)} cannot be written as JSON: {error}") from error
    if len({dumps(form, to_json) for form, _ in forms}) < len(members):
        raise TopologyError(f"two members of {short_name(kind)} are the same in JSON; give them other values")
    return forms


def _key(kind: Any) -> Convert:
    """In JSON, keys are strings."""
    kind = plain_type(kind)
    if kind in (str, Any):
        return _checked(str)
    if members := members_of(kind):
        texts = {text: member for (text,), member in _forms(kind, members, lambda member: {member: None})}
        return _parsed(kind, texts.__getitem__)
    if kind in (int, float):
        return _parsed(kind, kind)
    if kind in (date, datetime, UUID):
        return _parsed(kind, _PARSERS[kind])
    raise TopologyError(
        f"a {short_name(kind)} cannot be a key in JSON; use str, int, float, bool, date, datetime, UUID, Enum, Literal"
    )


def _checked(kind: type) -> Convert:
    def convert(raw: Any) -> Any:
        if isinstance(raw, kind):
            return raw
        if kind is float and type(raw) is int:
            return float(raw)
        raise Misfit(f"expected {kind.__name__}, got {shown(raw)}")

    return convert


def _parsed(kind: Any, parse: Convert) -> Convert:
    def convert(raw: Any) -> Any:
        try:
            return parse(raw)
        except Exception as error:
            raise Misfit(f"expected {short_name(kind)}, got {shown(raw)}: {error}") from error

    return convert


def _union(kind: Any, members: list[Any], built: dict[Any, Convert]) -> Convert:
    if sum(any(hasattr(member, mark) for mark in _OBJECTS) for member in members) > 1:
        raise TopologyError(f"the members of {kind} cannot be told apart in JSON; declare one of them")
    optional = len(members) < len(typing.get_args(kind))
    *first, last = [_build(member, built) for member in sorted(members, key=_turn)]

    def convert(raw: Any) -> Any:
        if raw is None and optional:
            return None
        for attempt in first:
            with contextlib.suppress(Misfit):
                return attempt(raw)
        return last(raw)

    return convert


def _turn(member: Any) -> int:
    """An int is also accepted as a float, and a bool as an int; every text is a str, and most texts are not dates."""
    return {bool: 0, int: 1, float: 2, str: 4}.get(plain_type(member), 3)


def _each(place: str, names: Iterable[Any], converts: Iterable[Convert], raws: Iterable[Any]) -> list[Any]:
    done, name = [], None
    try:
        for name, convert, raw in zip(names, converts, raws, strict=False):  # noqa: B007
            done.append(convert(raw))
    except Misfit as misfit:
        misfit.place = place.format(name) + misfit.place
        raise
    return done


def _sequence(kind: Any, items: Iterable[Convert]) -> Convert:
    def convert(raw: Any) -> Any:
        if type(raw) is not list or (isinstance(items, list) and len(items) != len(raw)):
            raise Misfit(f"expected {kind.__name__}, got {shown(raw)}")
        return kind(_each("[{}]", count(), items, raw))

    return convert


def _dict(key: Convert, value: Convert) -> Convert:
    def convert(raw: Any) -> Any:
        if type(raw) is not dict:
            raise Misfit(f"expected dict, got {shown(raw)}")
        keys = _each('["{}"]', raw, repeat(key), raw)
        return dict(zip(keys, _each('["{}"]', raw, repeat(value), raw.values()), strict=True))

    return convert


def _fields(kind: Any, built: dict[Any, Convert]) -> Convert:
    converts: dict[str, Convert] = {}
    make = (lambda raw, values: {**raw, **values}) if typing.is_typeddict(kind) else _maker(kind)

    def convert(raw: Any) -> Any:
        if type(raw) is not dict:
            raise Misfit(f"expected {kind.__name__}, got {shown(raw)}")
        at = ""
        try:
            values = {(at := name): convert(raw[name]) for name, convert in converts.items() if name in raw}
        except Misfit as misfit:
            misfit.place = f".{at}{misfit.place}"
            raise
        return make(raw, values)

    built[kind] = convert  # before its fields, because a field may have this type too
    hints = hints_of(kind)
    names = hints if typing.is_typeddict(kind) else [field.name for field in dataclasses.fields(kind)]
    converts.update({name: _build(hints[name], built) for name in names})
    return convert


def hints_of(kind: Any) -> dict[str, Any]:
    """The types of its fields."""
    try:
        return typing.get_type_hints(kind, localns={kind.__name__: kind})
    except NameError as error:
        hint = "define it at module level"
        raise TopologyError(f"an annotation of {kind.__name__} does not resolve: {error}; {hint}") from error


def _maker(kind: Any) -> Callable[[Any, dict[str, Any]], Any]:
    """Call the class with the fields that it accepts, and set the others (`init=False`)."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    later = [name for name, field in fields.items() if not field.init]
    parameters = inspect.signature(kind).parameters
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    for name in [*required, *fields]:
        if name not in fields or name.startswith("_"):
            reason = "starts with an underscore" if name in fields else "is a parameter but not a field"
            raise TopologyError(f'"{name}" of {kind.__name__} {reason}, so JSON would lose it; rename it')

    def make(raw: Any, values: dict[str, Any]) -> Any:
        kept = [(name, values.pop(name)) for name in later if name in values]
        try:
            made = kind(**values)
        except Exception as error:
            for name in required:
                if name not in values:
                    raise Misfit(f'field "{name}" of {kind.__name__} is missing and has no default') from error
            raise Misfit(f"{kind.__name__} refused its fields: {error!r}") from error
        for name, value in kept:
            object.__setattr__(made, name, value)  # works for frozen classes too
        return made

    return make
