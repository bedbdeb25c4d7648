"""JSON with integers of any size. orjson alone refuses to write large integers, and reads them as floats."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from enum import Enum
from typing import Any
from uuid import UUID

import orjson

Default = Callable[[Any], Any]
OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS
TEXT_KEYS = orjson.OPT_PASSTHROUGH_DATETIME
"""Dicts with keys that are not exactly str are refused."""
SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
"""Also for keys: orjson sorts dicts, but not dataclasses, which it writes itself."""


@functools.cache
def _decode() -> Callable[[bytes], Any]:
    """The decoder of msgspec, which reads integers of any size exactly; imported when it is first needed."""
    decode: Callable[[bytes], Any] = __import__("msgspec").json.Decoder().decode
    return decode


def loads(data: bytes) -> Any:
    return _decode()(data)


def loads_column(column: list[bytes]) -> list[Any]:
    return list(map(_decode(), column))


def dumps(value: Any, default: Default, options: int = OPTIONS) -> bytes:
    """`default` converts types that JSON does not have to types that it has."""
    try:
        # Without the copy that the slice makes, each value would keep the 4 kB buffer of orjson.
        return orjson.dumps(value, default, options | orjson.OPT_APPEND_NEWLINE)[:-1]
    except orjson.JSONEncodeError as error:
        if "64-bit" not in str(error):
            raise
    return dumps_exactly(value, default, is_sorted=bool(options & orjson.OPT_SORT_KEYS))


def dumps_exactly(value: Any, default: Default, *, is_sorted: bool = False) -> bytes:
    """The same, slowly: for integers of any size, and it raises where orjson writes null, for NaN and infinity."""
    return json.dumps(
        value,
        default=lambda one: _scalar(one, default),
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
        sort_keys=is_sorted,
    ).encode()


def dumps_column(column: list[Any], default: Default | None, options: int = OPTIONS) -> list[bytes]:
    """`dumps` of each value; raises if an integer has more than 64 bits."""
    write, options = orjson.dumps, options | orjson.OPT_APPEND_NEWLINE
    return [write(value, default, options)[:-1] for value in column]


def _scalar(value: Any, default: Default) -> Any:
    """With the types that orjson knows itself."""
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, UUID) else default(value)
