"""JSON with integers of any size, which orjson alone refuses to write, and reads as floats."""

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
"""Dicts whose keys are not exactly texts are refused."""
SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
"""For keys, in addition: orjson sorts dicts, but not its own dataclasses."""


@functools.cache
def _decode() -> Callable[[bytes], Any]:
    """That of msgspec, which reads integers of any size as they are; imported when it is needed."""
    decode: Callable[[bytes], Any] = __import__("msgspec").json.Decoder().decode
    return decode


def loads(data: bytes) -> Any:
    return _decode()(data)


def loads_column(column: list[bytes]) -> list[Any]:
    return list(map(_decode(), column))


def dumps(value: Any, default: Default, options: int = OPTIONS) -> bytes:
    """`default` gives types that JSON does not have as types that it has."""
    try:
        # Without the copy that the slice makes, each value would keep the 4 kB buffer of orjson.
        return orjson.dumps(value, default, options | orjson.OPT_APPEND_NEWLINE)[:-1]
    except orjson.JSONEncodeError as error:
        if "64-bit" not in str(error):
            raise
    return json.dumps(
        value,
        default=lambda one: _scalar(one, default),
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
        sort_keys=bool(options & orjson.OPT_SORT_KEYS),
    ).encode()


def dumps_column(column: list[Any], default: Default | None, options: int = OPTIONS) -> list[bytes]:
    """What `dumps` gives for each, but raises where an integer has more than 64 bits."""
    write, options = orjson.dumps, options | orjson.OPT_APPEND_NEWLINE
    return [write(value, default, options)[:-1] for value in column]


def _scalar(value: Any, default: Default) -> Any:
    """With what orjson knows by itself."""
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, UUID) else default(value)
