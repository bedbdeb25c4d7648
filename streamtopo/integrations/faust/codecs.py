"""Serdes as Faust codecs, so that Faust's topics and tables can read and write the bytes of streamtopo."""

from __future__ import annotations

from functools import partial
from typing import Any

from faust.serializers.codecs import Codec
from faust.types.codecs import CodecT

from streamtopo.serdes import serde_of


class SerdeCodec(Codec):
    """`app.topic(value_serializer=SerdeCodec(kind=Order))`: the bytes that `value=Order` stands for in streamtopo.

    >>> SerdeCodec(kind=int).dumps(1)
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01'
    """

    def __init__(self, children: tuple[CodecT, ...] | None = None, *, kind: Any) -> None:
        super().__init__(children, kind=kind)
        self._serde = serde_of(kind)

    def _dumps(self, value: Any) -> bytes:
        return self._serde.encode(value)

    def _loads(self, data: bytes) -> Any:
        return self._serde.decode(data)


# Faust calls these to fill its registry with the codecs "streamtopo-int", …
int_codec, float_codec, bool_codec = (
    partial(SerdeCodec, kind=int),
    partial(SerdeCodec, kind=float),
    partial(SerdeCodec, kind=bool),
)
json_codec = partial(SerdeCodec, kind=dict[str, Any] | list[Any])
