"""Lines as they come: many at once from a file, soon after they were typed on a terminal."""

from __future__ import annotations

import io
import select
import time
from collections.abc import Iterator
from typing import IO, NamedTuple

MOST_LINES = 10_000
MOST_BYTES = 16 << 20
LONGEST_WAIT = 0.1
"""Seconds from a line's coming to its being handed on."""
READ = 1 << 20


class Lines(NamedTuple):
    """Without their ends; `size` is what was read for them, in bytes."""

    lines: list[bytes]
    size: int


def batches(stream: IO[bytes]) -> Iterator[Lines]:
    """Up to 10,000 lines or 16 MB, or what came within 100 ms of the first; the last line needs no end."""
    reader = _Reader(stream)
    try:
        while reader.collect():
            yield reader.take()
    except KeyboardInterrupt:  # what was typed before counts
        if reader.waiting:
            yield reader.take()
        raise


class _Reader:
    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._selectable = _has_descriptor(stream)
        self._rest: list[bytes] = []
        """The pieces of a line that has not ended yet."""
        self._bytes = 0
        self.waiting: list[bytes] = []
        self.ended = False

    def collect(self) -> bool:
        """False when there is nothing more."""
        deadline = None
        while not self.ended and not self._enough():
            if deadline is None and self.waiting:
                deadline = time.monotonic() + LONGEST_WAIT
            if deadline is not None and not self._readable(deadline - time.monotonic()):
                break
            self._read()
        return bool(self.waiting)

    def _enough(self) -> bool:
        return len(self.waiting) >= MOST_LINES or (bool(self.waiting) and self._bytes >= MOST_BYTES)

    def take(self) -> Lines:
        taken, self.waiting = self.waiting[:MOST_LINES], self.waiting[MOST_LINES:]
        size, self._bytes = self._bytes, 0
        return Lines([line[:-1] if line.endswith(b"\r") else line for line in taken], size)

    def _readable(self, seconds: float) -> bool:
        if not self._selectable:
            return True
        # `read1` left nothing behind that select would not see: it asked for more than a buffer holds.
        return bool(select.select([self._stream], [], [], max(seconds, 0))[0])

    def _read(self) -> None:
        read = self._stream.read1(READ)  # type: ignore[attr-defined]  # both buffered files and BytesIO have it
        self._bytes += len(read)
        end, *begun = read.split(b"\n")
        self._rest.append(end)
        if begun or not read:
            line = b"".join(self._rest)
            *whole, rest = begun or [b""]
            self.waiting += [line, *whole] if begun or line else []
            self._rest = [rest]
        self.ended = not read


def _has_descriptor(stream: IO[bytes]) -> bool:
    try:
        stream.fileno()
    except (OSError, io.UnsupportedOperation):
        return False
    return True
