"""Faust's models and codecs as serdes, which read and write the bytes of Faust's topics and tables."""

from __future__ import annotations

from typing import Any

from faust.serializers.codecs import get_codec
from faust.serializers.registry import Registry
from faust.types import CodecArg

from streamtopo.errors import SerdeError
from streamtopo.serdes import Serde
from streamtopo.serdes.json_types import short_name, shown


def faust_serde(kind: Any = None, codec: CodecArg = "json") -> Serde:
    """What `app.topic(value_type=kind, value_serializer=codec)` reads and writes.

    `kind` is a `faust.Record`, or str, bytes, int, float or Decimal; without it, any value that the codec accepts.
    `codec` is a name, several names separated by |, or a codec; the `serializer=` of a Record has precedence.

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
            raise SerdeError(f"the codec {codec!r} does not return bytes for {shown(value)}; give another codec")
        return data

    def decode(data: bytes) -> Any:
        return None if data == null else registry.loads_value(kind, data)

    plain = kind in (str, bytes, int, float)
    return Serde(f"faust {short_name(kind)} as {codec}", encode, decode, mutable=not plain)


def _reads_null(codec: CodecArg) -> bool:
    """Whether the codec reads these bytes as None; a codec for plain text reads a text."""
    try:
        return get_codec(codec).loads(b"null") is None
    except Exception:
        return False
