"""Keys as they are written in a URL, and keys and values as they are shown in JSON."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import orjson

from streamtopo.errors import StreamtopoError
from streamtopo.serdes import Serde

_PLAIN: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": {"true": True, "false": False}.__getitem__,
}


class MalformedKey(StreamtopoError):
    """The text is no key of the store."""


def key_of(serde: Serde, text: str) -> Any:
    """Numbers as decimals, text and bytes as they are, everything else as the JSON that its topic has."""
    try:
        return _PLAIN[serde.name](text) if serde.name in _PLAIN else serde.decode(text.encode())
    except Exception as error:
        raise MalformedKey(f'"{text:.80}" is no key of type {serde.name}: {error}') from error


def shown(serde: Serde, value: Any) -> Any:
    """What orjson can write: models as their JSON, bytes as text where they are text, else as base64."""
    if value is None or isinstance(value, str | int | float):
        return value
    data = value if isinstance(value, bytes) else serde.encode(value)
    if not isinstance(value, bytes):
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
