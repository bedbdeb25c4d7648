"""Types with fields: dataclasses, TypedDicts, and the models of pydantic and msgspec."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

from streamtopo.serdes import without_none
from streamtopo.serdes.json_types import hints_of, plain_type

_CODE = ("__post_init__", "__new__", "__setattr__", "__getattribute__", "__getattr__")


class Record(NamedTuple):
    fields: Mapping[str, Any]
    """The type of each field, by the name that it has in Python."""
    is_dict: bool = False
    """Its objects are dicts, and each field may be missing."""
    is_plain: bool = False
    """Its objects have exactly the fields that the JSON has, and those with these defaults."""
    defaults: Mapping[str, Any] = {}
    """In JSON."""


def record_of(kind: Any) -> Record | None:
    if not isinstance(kind, type):
        return None
    if typing.is_typeddict(kind):
        return Record(hints_of(kind), is_dict=True, is_plain=True)
    if hasattr(kind, "model_fields"):
        return Record({name: field.annotation for name, field in kind.model_fields.items()})
    if hasattr(kind, "__struct_fields__"):
        return Record({field.name: field.type for field in __import__("msgspec").structs.fields(kind)})
    if not dataclasses.is_dataclass(kind):
        return None
    hints = hints_of(kind)
    fields = dataclasses.fields(kind)
    defaults = {field.name: field.default for field in fields if _is_json(field.default, hints[field.name])}
    return Record({field.name: hints[field.name] for field in fields}, is_plain=_is_plain(kind), defaults=defaults)


def _is_json(default: Any, kind: Any) -> bool:
    """Whether the default would be the same if it were read from JSON."""
    return default is None or plain_type(without_none(kind)) in (str, int, float, bool)


def _is_plain(kind: Any) -> bool:
    """Whether the class only keeps its fields: it has no code that could make something else of them."""
    fields = dataclasses.fields(kind)
    if "__dataclass_params__" not in vars(kind) or not all(field.init for field in fields):
        return False
    parameters = kind.__dataclass_params__
    own = {name for name in _CODE if getattr(kind, name, None) is not getattr(object, name, None)}
    own -= {"__setattr__"} if parameters.frozen else set()
    attributes = [inspect.getattr_static(kind, field.name, None) for field in fields]
    usual = parameters.init and type(kind).__call__ is type.__call__
    return usual and not own and not any(map(_has_code, attributes))


def _has_code(attribute: Any) -> bool:
    """A property, or another descriptor that decides what is read and set; slots only keep what is set."""
    return hasattr(type(attribute), "__get__") and not isinstance(attribute, types.MemberDescriptorType)
