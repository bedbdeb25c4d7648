"""The serde of the cases: any string, integer, double, boolean, list, mapping or windowed key, by its first byte."""

from __future__ import annotations

import json
import struct
from typing import Any

from streamtopo import Serde, Windowed

_STRING, _INTEGER, _DOUBLE, _BOOLEAN, _JSON, _WINDOWED = b"\1\2\3\4\5\6"
_WINDOW = struct.Struct(">qq")


def encode(value: Any) -> bytes:
    """Encode a value. Values of one type are ordered as SCHEMA.md says: as UTF-8, or as eight bytes, big-endian."""
    if isinstance(value, bool):
        return struct.pack(">B?", _BOOLEAN, value)
    if isinstance(value, int):
        return struct.pack(">Bq", _INTEGER, value)
    if isinstance(value, float):
        return struct.pack(">Bd", _DOUBLE, value)
    if isinstance(value, str):
        return bytes([_STRING]) + value.encode()
    if isinstance(value, Windowed):
        return bytes([_WINDOWED]) + encode(value.key) + _WINDOW.pack(value.start, value.end)
    return bytes([_JSON]) + json.dumps(value).encode()


def decode(data: bytes) -> Any:
    kind, rest = data[0], data[1:]
    if kind in _FORMATS:
        return struct.unpack(_FORMATS[kind], rest)[0]
    if kind == _WINDOWED:
        return Windowed(decode(rest[: -_WINDOW.size]), *_WINDOW.unpack(rest[-_WINDOW.size :]))
    return rest.decode() if kind == _STRING else json.loads(rest)


_FORMATS = {_INTEGER: ">q", _DOUBLE: ">d", _BOOLEAN: ">?"}
ANY = Serde("any", encode, decode)
