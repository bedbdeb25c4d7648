"""From parsed JSON to typed Python values: one closure per type, built once; and the way back for orjson."""

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

Convert = Callable[[Any], Any]
_OBJECTS = ("__dataclass_fields__", "__struct_fields__", "model_validate", "__total__")
_PARSERS: dict[Any, Convert] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    UUID: UUID,
    Decimal: lambda raw: Decimal(str(raw)),
}


class _Misfit(Exception):
    """What came does not fit the type; `place` grows from the inside out while the error travels up."""

    place = ""


def shown(value: object) -> str:
    """The type and a short form of a value, for errors."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"


def short_name(kind: Any) -> str:
    return str(kind if typing.get_origin(kind) else getattr(kind, "__name__", kind))


def converter(kind: Any) -> Convert:
    """A function from what `orjson.loads` gives to `kind`; a SerdeError says where what does not fit."""
    inner, root = _build(kind, {}), short_name(kind)

    def convert(raw: Any) -> Any:
        try:
            return inner(raw)
        except _Misfit as misfit:
            raise SerdeError(f"{root}{misfit.place}: {misfit}") from misfit.__cause__

    return convert


def time_to_json(value: Any) -> str:
    """orjson 3.13 writes a `time` of 10 ms as 100 ms, so it is not asked to write times itself."""
    if isinstance(value, (date, time)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def to_json(value: Any) -> Any:
    """The `default` of orjson: types it does not know, as types it knows."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)  # a set's own order differs from process to process
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if hasattr(value, "__struct_fields__"):
        return __import__("msgspec").to_builtins(value, str_keys=True)
    if dataclasses.is_dataclass(value):  # only from keys: orjson sorts dicts, but not its own dataclasses
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return time_to_json(value)


def _build(kind: Any, built: dict[Any, Convert]) -> Convert:
    kind = getattr(kind, "__supertype__", kind)  # a NewType is its own type for the type checker only
    if kind not in built:
        built[kind] = _container(kind, built) or _model(kind, built) or _scalar(kind)
    return built[kind]


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
        if key is time:  # as a key, orjson would write it itself
            raise TopologyError("a time is no key in JSON; use its isoformat()")
        return _dict(_parsed(key, key) if key in (int, float) else _build(key, built), _build(value, built))
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
    if typing.get_origin(kind) is Literal:
        return _parsed(kind, {value: value for value in typing.get_args(kind)}.__getitem__)
    if kind in _PARSERS or (isinstance(kind, type) and issubclass(kind, Enum)):
        return _parsed(kind, _PARSERS.get(kind, kind))
    raise TopologyError(
        f"{short_name(kind)} has no form in JSON; use dataclasses, TypedDict, pydantic, msgspec models, "
        'collections, Enum, datetime, UUID, Decimal and plain types, or write a Serde("name", encode, decode)'
    )


def _checked(kind: type) -> Convert:
    def convert(raw: Any) -> Any:
        if isinstance(raw, kind):
            return raw
        if kind is float and type(raw) is int:
            return float(raw)
        raise _Misfit(f"expected {kind.__name__}, got {shown(raw)}")

    return convert


def _parsed(kind: Any, parse: Convert) -> Convert:
    def convert(raw: Any) -> Any:
        try:
            return parse(raw)
        except Exception as error:
            raise _Misfit(f"expected {short_name(kind)}, got {shown(raw)}: {error}") from error

    return convert


def _union(kind: Any, members: list[Any], built: dict[Any, Convert]) -> Convert:
    if sum(any(hasattr(member, mark) for mark in _OBJECTS) for member in members) > 1:
        raise TopologyError(f"the members of {kind} cannot be told apart in JSON; declare one of them")
    optional = len(members) < len(typing.get_args(kind))
    # every text is a str, and most are no date: str has its turn last
    *first, last = [_build(member, built) for member in sorted(members, key=lambda member: member is str)]

    def convert(raw: Any) -> Any:
        if raw is None and optional:
            return None
        for attempt in first:
            with contextlib.suppress(_Misfit):
                return attempt(raw)
        return last(raw)

    return convert


def _each(place: str, names: Iterable[Any], converts: Iterable[Convert], raws: Iterable[Any]) -> list[Any]:
    done, name = [], None
    try:
        for name, convert, raw in zip(names, converts, raws, strict=False):  # noqa: B007
            done.append(convert(raw))
    except _Misfit as misfit:
        misfit.place = place.format(name) + misfit.place
        raise
    return done


def _sequence(kind: Any, items: Iterable[Convert]) -> Convert:
    def convert(raw: Any) -> Any:
        if type(raw) is not list or (isinstance(items, list) and len(items) != len(raw)):
            raise _Misfit(f"expected {kind.__name__}, got {shown(raw)}")
        return kind(_each("[{}]", count(), items, raw))

    return convert


def _dict(key: Convert, value: Convert) -> Convert:
    def convert(raw: Any) -> Any:
        if type(raw) is not dict:
            raise _Misfit(f"expected dict, got {shown(raw)}")
        keys = _each('["{}"]', raw, repeat(key), raw)
        return dict(zip(keys, _each('["{}"]', raw, repeat(value), raw.values()), strict=True))

    return convert


def _fields(kind: Any, built: dict[Any, Convert]) -> Convert:
    converts: dict[str, Convert] = {}
    make = (lambda raw, values: {**raw, **values}) if typing.is_typeddict(kind) else _maker(kind)

    def convert(raw: Any) -> Any:
        if type(raw) is not dict:
            raise _Misfit(f"expected {kind.__name__}, got {shown(raw)}")
        at = ""
        try:
            values = {(at := name): convert(raw[name]) for name, convert in converts.items() if name in raw}
        except _Misfit as misfit:
            misfit.place = f".{at}{misfit.place}"
            raise
        return make(raw, values)

    built[kind] = convert  # before its fields, which may be of this kind too
    try:
        hints = typing.get_type_hints(kind, localns={kind.__name__: kind})
    except NameError as error:
        hint = "define it at module level"
        raise TopologyError(f"an annotation of {kind.__name__} does not resolve: {error}; {hint}") from error
    names = hints if typing.is_typeddict(kind) else [field.name for field in dataclasses.fields(kind)]
    converts.update({name: _build(hints[name], built) for name in names})
    return convert


def _maker(kind: Any) -> Callable[[Any, dict[str, Any]], Any]:
    """Calls the class with what it takes, and sets the fields that it does not take (`init=False`)."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    later = [name for name, field in fields.items() if not field.init]
    parameters = inspect.signature(kind).parameters
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    for name in [*required, *fields]:
        if name not in fields or name.startswith("_"):
            reason = "starts with an underscore" if name in fields else "is asked for but is no field"
            raise TopologyError(f'"{name}" of {kind.__name__} {reason}, so JSON would lose it; rename it')

    def make(raw: Any, values: dict[str, Any]) -> Any:
        kept = [(name, values.pop(name)) for name in later if name in values]
        try:
            made = kind(**values)
        except Exception as error:
            for name in required:
                if name not in values:
                    raise _Misfit(f'field "{name}" of {kind.__name__} is missing and has no default') from error
            raise _Misfit(f"{kind.__name__} refused its fields: {error!r}") from error
        for name, value in kept:
            object.__setattr__(made, name, value)  # also where the class is frozen
        return made

    return make
