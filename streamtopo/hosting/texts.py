"""Keys as they are written in a URL, and rows as they are shown in JSON."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

from streamtopo.errors import SerdeError, StreamtopoError
from streamtopo.serdes import JSON, Serde
from streamtopo.stores import StoreSpec
from streamtopo.stores.versions import Version

DIGITS = 30
"""Of a time or a count, at most; Python refuses to read numbers of thousands."""
_PLAIN: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": {"true": True, "false": False}.__getitem__,
}


class MalformedKey(StreamtopoError):
    """The text is no key of the store."""


def key_of(serde: Serde, text: str) -> Any:
    """Numbers as decimals, text and bytes as they are, everything else as the JSON that its topic has.

    Of windowed keys the key without its window.
    """
    serde = serde.inner or serde
    try:
        return _PLAIN[serde.name](text) if serde.name in _PLAIN else serde.decode(text.encode())
    except Exception as error:
        raise MalformedKey(f'"{text:.80}" is no key of type {serde.name}: {error}') from error


def bound_of(spec: StoreSpec, text: str) -> Any:
    """The first or the last of a range: a key, or a time where the rows have times in their keys."""
    if not spec.timed:
        return key_of(spec.key, text)
    if not text.isdecimal() or len(text) > DIGITS:
        raise MalformedKey(f'"{text:.80}" is no time; give milliseconds since 1970, as timestamps are')
    return int(text)


def shown_row(spec: StoreSpec, key: Any, value: Any) -> dict[str, Any]:
    """A windowed key is taken apart."""
    if spec.key.inner is None:
        return {"key": shown(spec.key, key), "value": shown_value(spec, value)}
    inner, start, end = key
    return {"key": shown(spec.key.inner, inner), "start": start, "end": end, "value": shown_value(spec, value)}


def shown_version(spec: StoreSpec, key: Any, version: Version) -> dict[str, Any]:
    value, timestamp, valid_to = version
    return {**shown_row(spec, key, value), "timestamp": timestamp, "valid_to": valid_to}


def shown_value(spec: StoreSpec, value: Any) -> Any:
    """What a store with versions keeps is a chain of them; its serde has that of the values inside."""
    return shown(spec.value.inner or spec.value, value)


def shown(serde: Serde, value: Any) -> Any:
    """What JSON can have: models as their JSON, bytes as text where they are text, else as base64."""
    if value is None or isinstance(value, str | int | float) or serde.name == "json":
        return value
    data = value if isinstance(value, bytes) else serde.encode(value)
    if not isinstance(value, bytes):
        try:
            return JSON.decode(data)
        except SerdeError:
            pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
