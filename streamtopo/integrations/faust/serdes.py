"""Faust's models and codecs as serdes: bytes are read and written as a topic or table of Faust does it."""

from __future__ import annotations

from typing import Any

from faust.serializers.codecs import get_codec
from faust.serializers.registry import Registry
from faust.types import CodecArg

from streamtopo.errors import SerdeError
from streamtopo.models import short_name, shown
from streamtopo.serdes import Serde


def faust_serde(kind: Any = None, codec: CodecArg = "json") -> Serde:
    """What `app.topic(value_type=kind, value_serializer=codec)` reads and writes.

    `kind` is a `faust.Record`, or str, bytes, int, float or Decimal; without it any value that the codec takes. `codec`
    is a name, names with a | between them, or a codec; that of a Record's own `serializer=` goes before it.

    >>> import faust
    >>> class Point(faust.Record):
    ...     x: int
    >>> point = faust_serde(Point, "json|binary")
    >>> point.decode(point.encode(Point(x=1)))
    <Point: x=1>
    """
    options = getattr(kind, "_options", None)
    codec = getattr(options, "serializer", None) or codec
    registry: Any = Registry(value_serializer=codec)
    expected = kind if isinstance(kind, type) else object
    null = b"null" if _reads_null(codec) else None

    def encode(value: Any) -> bytes:
        if not isinstance(value, expected):
            raise SerdeError(f"expected {short_name(kind)}, got {shown(value)}")
        data = registry.dumps_value(kind, value)
        if not isinstance(data, bytes):
            raise SerdeError(f"the codec {codec!r} makes no bytes of {shown(value)}")
        return data

    def decode(data: bytes) -> Any:
        return None if data == null else registry.loads_value(kind, data)

    plain = kind in (str, bytes, int, float)
    return Serde(f"faust {short_name(kind)} as {codec}", encode, decode, mutable=not plain)


def _reads_null(codec: CodecArg) -> bool:
    """Whether these bytes are a None; where text is written as it is, they are a text."""
    try:
        return get_codec(codec).loads(b"null") is None
    except Exception:
        return False
