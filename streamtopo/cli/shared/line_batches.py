"""Reads lines in batches: large ones from a file, and without delay from a terminal."""

from __future__ import annotations

import io
import select
import time
from collections.abc import Iterator
from typing import IO, NamedTuple

MAX_LINES = 10_000
MAX_BYTES = 16 << 20
MAX_WAIT = 0.1
"""Seconds that a line waits for others."""
READ_SIZE = 1 << 20


class LineBatch(NamedTuple):
    """Lines without their line ends; `size` is the number of bytes that were read for them."""

    lines: list[bytes]
    size: int


def read_batches(stream: IO[bytes]) -> Iterator[LineBatch]:
    """Yield up to 10,000 lines or 16 MB, or what arrives within 100 ms of the first. The last line needs no end."""
    reader = _LineReader(stream)
    try:
        while reader.collect():
            yield reader.take()
    except KeyboardInterrupt:  # lines typed before Ctrl-C are kept
        if reader.waiting:
            yield reader.take()
        raise


class _LineReader:
    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._selectable = _has_descriptor(stream)
        self._pieces: list[bytes] = []
        """The pieces of a line whose end has not been read yet."""
        self._bytes = 0
        self.waiting: list[bytes] = []
        self.ended = False

    def collect(self) -> bool:
        """Read the next batch. Return False if there is nothing left."""
        deadline = None
        while not self.ended and not self._is_full():
            if deadline is None and self.waiting:
                deadline = time.monotonic() + MAX_WAIT
            if deadline is not None and not self._readable(deadline - time.monotonic()):
                break
            self._read()
        return bool(self.waiting)

    def _is_full(self) -> bool:
        return len(self.waiting) >= MAX_LINES or (bool(self.waiting) and self._bytes >= MAX_BYTES)

    def take(self) -> LineBatch:
        taken, self.waiting = self.waiting[:MAX_LINES], self.waiting[MAX_LINES:]
        size, self._bytes = self._bytes, 0
        return LineBatch([line[:-1] if line.endswith(b"\r") else line for line in taken], size)

    def _readable(self, seconds: float) -> bool:
        if not self._selectable:
            return True
        # `read1` asked for more than a buffer holds, so no data waits in a buffer, where select would not see it.
        return bool(select.select([self._stream], [], [], max(seconds, 0))[0])

    def _read(self) -> None:
        read = self._stream.read1(READ_SIZE)  # type: ignore[attr-defined]  # both buffered files and BytesIO have it
        self._bytes += len(read)
        end, *following = read.split(b"\n")
        self._pieces.append(end)
        if following or not read:
            line = b"".join(self._pieces)
            *whole, rest = following or [b""]
            self.waiting += [line, *whole] if following or line else []
            self._pieces = [rest]
        self.ended = not read


def _has_descriptor(stream: IO[bytes]) -> bool:
    try:
        stream.fileno()
    except (OSError, io.UnsupportedOperation):
        return False
    return True
