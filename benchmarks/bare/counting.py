"""Bare counting by key: one output per changed key at the commit, or one per record."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import orjson

from benchmarks.bare.loop import Output, Send
from benchmarks.bare.numbers import NUMBER, Numbers, numbers_of
from benchmarks.places import Place
from streamtopo.records import Batch, TopicPartition


def decode(batch: Batch) -> None:
    """Decode the events, although a count ignores them: invalid JSON must not be counted."""
    deque(map(orjson.loads, batch.columns.values), maxlen=0)  # type: ignore[arg-type]


class Counting:
    """Send the last count of each changed key at the commit."""

    def __init__(self, place: Place, source: str, output: str) -> None:
        self._parts = numbers_of(place, source, "counts")
        self._newest = [-1] * len(self._parts)
        self._output = Output(place.log, output)

    def take(self, batch: Batch, send: Send) -> None:
        decode(batch)
        self.count(batch)

    def count(self, batch: Batch) -> None:
        partition = batch.source.partition
        part = self._parts[partition]
        keys: list[bytes] = batch.columns.keys  # type: ignore[assignment]
        times = batch.columns.timestamps
        part.load(keys)
        part.values.update(keys)
        if times[0] >= self._newest[partition] and times == sorted(times):
            part.times.update(zip(keys, times, strict=True))
        else:
            _keep_latest(part, keys, times)
        part.changed.update(keys)
        self._newest[partition] = max(self._newest[partition], max(times))

    def flush(self, send: Send) -> None:
        for part in self._parts:
            changes = part.flush()
            part.log(send, *changes)
            self._output.send(send, *changes)

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        for part in self._parts:
            part.write(ends)


class CountingEach:
    """Send every count to the output and the changelog."""

    def __init__(self, place: Place, source: str, output: str) -> None:
        self._parts = numbers_of(place, source, "counts")
        self._output = Output(place.log, output)

    def take(self, batch: Batch, send: Send) -> None:
        decode(batch)
        part = self._parts[batch.source.partition]
        keys: list[bytes] = batch.columns.keys  # type: ignore[assignment]
        times = batch.columns.timestamps
        part.load(keys)
        counts, new = part.values, []
        for key in keys:
            counts[key] = total = counts[key] + 1
            new.append(total)
        part.times.update(zip(keys, times, strict=True))
        part.changed.update(keys)
        values = list(map(NUMBER.pack, new))
        part.log(send, keys, values, times)
        self._output.send(send, keys, values, times)

    def flush(self, send: Send) -> None:
        for part in self._parts:
            part.flush()

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        for part in self._parts:
            part.write(ends)


def _keep_latest(part: Numbers, keys: list[bytes], times: list[int]) -> None:
    latest = part.times
    for key, time in zip(keys, times, strict=True):
        if time > latest[key]:
            latest[key] = time
