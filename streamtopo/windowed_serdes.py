"""Windowed keys as bytes: on topics, where only the inner key decides the partition, and in stores and changelogs."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from streamtopo.durations import Duration, milliseconds
from streamtopo.errors import SerdeError
from streamtopo.serdes import Serde, SerdeLike, serde_of
from streamtopo.windows import FOREVER, Windowed

Span = Callable[..., tuple[int, int]]
"""What was packed behind the key -> the window's start and end."""

_START = struct.Struct(">q")
_START_NUMBER = struct.Struct(">qi")
_END_START = struct.Struct(">qq")


def time_windowed(key: SerdeLike, size: Duration) -> Serde:
    """Keys of time windows of this size, and of sliding windows with this difference, as they are on topics."""
    return _time_windowed(serde_of(key, key=True), milliseconds(size))


@functools.cache
def _time_windowed(key: Serde, size: int) -> Serde:
    return _windowed("time-windowed", key, _START, _start, _ending(size))


def session_windowed(key: SerdeLike) -> Serde:
    """Keys of session windows, on topics and in stores."""
    return _session_windowed(serde_of(key, key=True))


@functools.cache
def _session_windowed(key: Serde) -> Serde:
    return _windowed("session-windowed", key, _END_START, _end_start, lambda end, start: (start, end))


@functools.cache
def time_windowed_in_store(key: Serde, size: int) -> Serde:
    """As Kafka Streams has them in changelogs: a sequence number follows, which is for rows with duplicates."""
    return _windowed("time-windowed", key, _START_NUMBER, lambda window: (window[1], 0), _ending(size))


def _start(window: Windowed) -> tuple[int, ...]:
    return (window[1],)


def _end_start(window: Windowed) -> tuple[int, ...]:
    return window[2], window[1]


def _ending(size: int) -> Span:
    """Kafka Streams lets no end pass the largest time."""
    return lambda start, *_: (start, min(start + size, FOREVER))


def _windowed(
    name: str, inner: Serde, packed: struct.Struct, numbers: Callable[[Windowed], tuple[int, ...]], span: Span
) -> Serde:
    pack, unpack, cut = packed.pack, packed.unpack, packed.size

    def encode(window: Any) -> bytes:
        if not isinstance(window, tuple) or len(window) != 3:
            raise SerdeError(f"expected Windowed(key, start, end), got {window!r:.80}")
        return inner.encode(window[0]) + pack(*numbers(window))  # type: ignore[arg-type]

    def decode(data: bytes) -> Windowed:
        if len(data) < cut:
            raise SerdeError(f"a windowed key has {cut} bytes for its window, and this one {len(data)} in all")
        return Windowed(inner.decode(data[:-cut]), *span(*unpack(data[-cut:])))

    def encode_column(column: list[Any]) -> list[bytes]:
        keys = inner.encode_column([window[0] for window in column])
        return [key + pack(*numbers(window)) for key, window in zip(keys, column, strict=True)]  # type: ignore[operator]

    def decode_column(column: list[bytes]) -> list[Any]:
        keys = inner.decode_column([data[:-cut] for data in column])
        return [Windowed(key, *span(*unpack(data[-cut:]))) for key, data in zip(keys, column, strict=True)]

    return replace(
        inner,
        name=f"{name} {inner.name}",
        encode=encode,
        decode=decode,
        fast_encode=encode_column,
        fast_decode=decode_column,
        window_bytes=cut,
        inner=inner,
    )
