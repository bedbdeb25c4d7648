"""Bare counting by key and tumbling window: a number for each key followed by its window's start."""

from __future__ import annotations

import struct
from operator import itemgetter

from benchmarks.bare.counting import Counting, decode
from benchmarks.bare.loop import Output, Send
from benchmarks.places import Place
from streamtopo.logs import Log
from streamtopo.records import Batch

_START = struct.Struct(">q")
_inner = itemgetter(slice(None, -_START.size))


class WindowCounting(Counting):
    """Closed windows are kept: nothing is deleted, and no record is late."""

    def __init__(self, place: Place, source: str, output: str, size: int) -> None:
        super().__init__(place, source, output)
        self._output = WindowedOutput(place.log, output)
        self._size = size

    def take(self, batch: Batch, send: Send) -> None:
        decode(batch)
        size, pack, columns = self._size, _START.pack, batch.columns
        keys = [key + pack(time - time % size) for key, time in zip(columns.keys, columns.timestamps, strict=True)]  # type: ignore[operator]
        self.count(batch._replace(columns=columns._replace(keys=keys)))


class WindowedOutput(Output):
    """Records are partitioned by their keys without windows."""

    def __init__(self, log: Log, topic: str) -> None:
        super().__init__(log, topic)
        target = self._target
        self._target = lambda key: target(_inner(key))
