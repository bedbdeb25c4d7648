"""Windowed keys as bytes, on topics and in stores and changelogs. Only the inner key decides the partition."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from streamtopo.errors import SerdeError
from streamtopo.records.type_parameters import T
from streamtopo.serdes import Serde, SerdeLike, made_again, serde_of
from streamtopo.settings.durations import Duration, milliseconds
from streamtopo.windows import FOREVER, Windowed

Span = Callable[..., tuple[int, int]]
"""Converts the numbers packed after the key to the start and end of the window."""

_START = struct.Struct(">q")
_START_NUMBER = struct.Struct(">qi")
_END_START = struct.Struct(">qq")
_REMEMBERED = 1000
"""The number of starts of windows whose bytes are cached: many keys have windows with the same start."""


def time_windowed(key: SerdeLike[T], size: Duration) -> Serde[Windowed[T]]:
    """The serde of keys in topics, for time windows of this size or sliding windows with this difference."""
    return _time_windowed(serde_of(key, key=True), milliseconds(size))


@made_again
@functools.cache
def _time_windowed(key: Serde, size: int) -> Serde:
    return _windowed("time-windowed", key, _START, _starts, _ending(size))


def session_windowed(key: SerdeLike[T]) -> Serde[Windowed[T]]:
    """The serde of keys of session windows, in topics and stores."""
    return _session_windowed(serde_of(key, key=True))


@made_again
@functools.cache
def _session_windowed(key: Serde) -> Serde:
    return _windowed("session-windowed", key, _END_START, _ends_and_starts, lambda end, start: (start, end))


@made_again
@functools.cache
def time_windowed_in_store(key: Serde, size: int) -> Serde:
    """Keys in changelogs, as in Kafka Streams: with a sequence number at the end, for stores with duplicates."""
    return _windowed("time-windowed", key, _START_NUMBER, _starts_and_numbers, _ending(size))


def windowed_key(key: Serde, size: int | None) -> Serde:
    """The serde of keys on topics, with the `key_size` of their windows."""
    return _session_windowed(key) if size is None else _time_windowed(key, size)


def windowed_key_in_store(key: Serde, size: int | None) -> Serde:
    return _session_windowed(key) if size is None else time_windowed_in_store(key, size)


def _starts(windows: list[Any]) -> list[bytes]:
    return [_start(start) for _, start, _ in windows]


def _starts_and_numbers(windows: list[Any]) -> list[bytes]:
    return [_start_and_number(start) for _, start, _ in windows]


def _ends_and_starts(windows: list[Any]) -> list[bytes]:
    return [_END_START.pack(end, start) for _, start, end in windows]


@functools.lru_cache(maxsize=_REMEMBERED)
def _start(start: int) -> bytes:
    return _START.pack(start)


@functools.lru_cache(maxsize=_REMEMBERED)
def _start_and_number(start: int) -> bytes:
    return _START_NUMBER.pack(start, 0)


def _ending(size: int) -> Span:
    """The end of a window, which is at most the largest time, as in Kafka Streams."""
    return lambda start, *_: (start, min(start + size, FOREVER))


def _windowed(
    name: str, inner: Serde, packed: struct.Struct, times: Callable[[list[Any]], list[bytes]], span: Span
) -> Serde:
    unpack, cut = packed.unpack, packed.size

    def encode(window: Any) -> bytes:
        if not isinstance(window, tuple) or len(window) != 3:
            raise SerdeError(f"expected Windowed(key, start, end), got {window!r:.80}")
        return inner.encode(window[0]) + times([window])[0]

    def decode(data: bytes) -> Windowed:
        if len(data) < cut:
            raise SerdeError(f"a windowed key has {cut} bytes for its window, and this one {len(data)} in all")
        return Windowed(inner.decode(data[:-cut]), *span(*unpack(data[-cut:])))

    def encode_column(column: list[Any]) -> list[bytes]:
        keys = inner.encode_column([window[0] for window in column])
        return [key + time for key, time in zip(keys, times(column), strict=True)]  # type: ignore[operator]

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
