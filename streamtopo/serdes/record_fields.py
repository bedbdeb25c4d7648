"""The fields that values of a type are written with, by name: a later version must find them in old rows."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Literal, NamedTuple

DEFAULT = "="
"""Marks the type of a field that has a default."""
_RECORD = "record"


class Field(NamedTuple):
    name: str
    kind: Any
    default: bool


def fields_of(kind: Any) -> dict[str, str]:
    """The type of each field; empty for types without fields. Fields of nested records have paths.

    >>> @dataclasses.dataclass
    ... class Order:
    ...     customer: str
    ...     items: list[int] = dataclasses.field(default_factory=list)
    >>> fields_of(Order)
    {'customer': 'str', 'items': 'list[int]='}
    """
    found: dict[str, str] = {}
    _described(kind, "", found, ())
    return found


def without_names(text: str, kind: Any) -> str:
    """The text of a type without the names of its records: the names do not matter if the fields are known."""
    for part in _parts(kind):
        if _fields(part) is not None:
            text = text.replace(f"{part.__module__}.{part.__qualname__}", _RECORD)
    return text


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    for argument in typing.get_args(kind):
        yield from _parts(argument)


def _described(kind: Any, path: str, found: dict[str, str], within: tuple[Any, ...]) -> str:
    """The type as text, independent of the order of unions and of the names of records."""
    kind = getattr(kind, "__supertype__", kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _described(arguments[0], path, found, within)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(sorted({_described(member, path, found, within) for member in arguments}))
    if origin is Literal:
        return "Literal"
    if origin is not None:
        several = origin is tuple and Ellipsis not in arguments
        places = [f"{path}[{place if several else ''}]" for place in range(len(arguments))]
        inner = ", ".join(_described(*one, found, within) for one in zip(arguments, places, strict=True))
        return f"{_name(origin)}[{inner}]"
    fields = None if kind in within else _fields(kind)
    for field in fields or ():
        place = f"{path}.{field.name}" if path else field.name
        described = _described(field.kind, place, found, (*within, kind))
        found[place] = described + (DEFAULT if field.default else "")
    return _name(kind) if fields is None and kind not in within else _RECORD


def _name(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "Enum"  # its name is not part of the rows
    return "None" if kind is types.NoneType else str(getattr(kind, "__name__", kind))


def _fields(kind: Any) -> Iterable[Field] | None:
    """The fields of a record, by the names they are written with."""
    if hasattr(kind, "model_fields"):
        return [
            Field(of.serialization_alias or of.alias or name, of.annotation, not of.is_required())
            for name, of in kind.model_fields.items()
        ]
    if hasattr(kind, "__struct_fields__"):
        found = __import__("msgspec").structs.fields(kind)
        return [Field(of.encode_name, of.type, not of.required) for of in found]
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind)
        return [Field(name, hint, name in kind.__optional_keys__) for name, hint in hints.items()]
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, localns={kind.__name__: kind})
        return [Field(of.name, hints[of.name], _has_default(of)) for of in dataclasses.fields(kind)]
    return None


def _has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return not field.init or field.default is not missing or field.default_factory is not missing
