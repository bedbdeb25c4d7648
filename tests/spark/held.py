"""What a column must show of a value: written down a second time, value by value, for the tests."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from datetime import UTC, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NamedTuple
from uuid import UUID

from streamtopo.serdes import Serde
from streamtopo.serdes.exact_json import dumps, loads
from streamtopo.serdes.json_types import to_json


class Unheld(Exception):
    pass


class Variant(NamedTuple):
    json: Any


CORRUPT = "corrupt"


def expected(serde: Serde, kind: Any, data: bytes | None) -> Any:
    try:
        return None if data is None else held(kind, serde.decode(data))
    except Exception:
        return CORRUPT


def held(kind: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if value is None:
        return None
    if origin in (typing.Union, types.UnionType):
        members = [member for member in arguments if member is not types.NoneType]
        return held(members[0], value) if len(members) == 1 else variant(value)
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        members = [one for one in arguments or kind if one is not None]
        is_one = len({type(getattr(one, "value", one)) for one in members}) == 1
        require(any(value is one or (type(value) is type(one) and value == one) for one in members))
        return getattr(value, "value", value) if is_one else variant(value)
    if origin in (list, tuple, set, frozenset):
        require(type(value) is origin)
        items = set(arguments or (Any,)) - {...}
        if len(items) > 1:
            return {f"_{at}": held(*one) for at, one in enumerate(zip(arguments, value, strict=True), 1)}
        item = items.pop()
        return [held(item, one) for one in (sorted(value, key=repr) if origin in (set, frozenset) else value)]
    if origin is dict and arguments:
        require(type(value) is dict)
        return {key_text(key): held(arguments[1], one) for key, one in value.items()}
    if kind in (Any, object, dict):
        return variant(value)
    if typing.is_typeddict(kind):
        return {name: held(hint, value.get(name)) for name, hint in typing.get_type_hints(kind).items()}
    if dataclasses.is_dataclass(kind):
        require(type(value) is kind)
        hints = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        return {name: held(hints[name], getattr(value, name, None)) for name in names}
    return scalar(kind, value)


def scalar(kind: Any, value: Any) -> Any:
    if kind is float:
        require(type(value) in (int, float) and float(value) == value)
        return repr(float(value))
    require(isinstance(value, kind))
    if kind is int:
        require(-(2**63) <= value < 2**63)
        return int(value)
    if kind is datetime:
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        try:
            return moment.astimezone(UTC)
        except OverflowError:
            raise Unheld from None
    if kind is Decimal:
        sign, digits, exponent = value.as_tuple()
        require(isinstance(exponent, int))
        whole = int("".join(map(str, digits)))
        scaled = whole * 10 ** (18 + exponent) if exponent >= -18 else None
        if scaled is None:
            require(whole % 10 ** (-18 - exponent) == 0)
            scaled = whole // 10 ** (-18 - exponent)
        require(scaled < 10**38)
        return -scaled if sign else scaled
    if kind is str:
        value.encode()
    return value.isoformat() if kind is time else str(value) if kind is UUID else value


def variant(value: Any) -> Any:
    text = json.dumps(plain(value), allow_nan=False)
    _check_ints(json.loads(text))
    return Variant(json.loads(text))


def plain(value: Any) -> Any:
    if isinstance(value, (list, dict, str, int, float)) and not isinstance(value, Enum):
        return value
    return loads(dumps(value, to_json))


def _check_ints(parsed: Any) -> None:
    if isinstance(parsed, int):
        require(abs(parsed) < 10**38)
    for one in parsed.values() if isinstance(parsed, dict) else parsed if isinstance(parsed, list) else ():
        _check_ints(one)


def key_text(key: Any) -> str:
    (text,) = loads(dumps({key: None}, to_json))
    return str(text)


def require(is_so: bool) -> None:
    if not is_so:
        raise Unheld


def shown(kind: Any, found: Any) -> Any:
    """What a column shows, as Arrow or Spark give it, in the form of `held`."""
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if found is None:
        return None
    if origin in (typing.Union, types.UnionType):
        members = [member for member in arguments if member is not types.NoneType]
        return shown(members[0], found) if len(members) == 1 else Variant(json.loads(found))
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        forms = [getattr(one, "value", one) for one in arguments or kind if one is not None]
        return found if len(set(map(type, forms))) == 1 else Variant(json.loads(found))
    if origin in (list, tuple, set, frozenset):
        items = set(arguments or (Any,)) - {...}
        if len(items) > 1:
            return {f"_{at}": shown(one, found[f"_{at}"]) for at, one in enumerate(arguments, 1)}
        item = items.pop()
        return [shown(item, one) for one in found]
    if origin is dict and arguments:
        return {key: shown(arguments[1], one) for key, one in dict(found).items()}
    if kind in (Any, object, dict):
        return Variant(json.loads(found))
    if typing.is_typeddict(kind) or dataclasses.is_dataclass(kind):
        return {name: shown(hint, found[name]) for name, hint in typing.get_type_hints(kind).items()}
    if kind is float:
        return repr(found)
    if kind is datetime:
        return found.astimezone(UTC)
    if kind is Decimal:
        return int(found.scaleb(18))
    return found
