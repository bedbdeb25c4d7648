"""Bare joins of JSON events by key: with a table of names, and with another stream within a window."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping
from typing import Any

import orjson

from benchmarks.bare.loop import Output, Send
from benchmarks.bare.numbers import changelog_of
from benchmarks.places import Place
from streamtopo.logs import Topic
from streamtopo.records import Batch, Columns, TopicPartition

_TIME = struct.Struct(">q")
_PLACE = struct.Struct(">qI")


class _Kept:
    """Rows of one partition for its changelog and its store."""

    def __init__(self, place: Place, name: str, partition: int) -> None:
        self._name, self._changelog = name, TopicPartition(changelog_of(name), partition)
        self._store = place.open_rows()
        self._rows: dict[bytes, bytes] = {}

    def put(self, send: Send, keys: list[bytes], values: list[bytes], times: list[int], rows: list[bytes]) -> None:
        send(self._changelog, Columns(keys, values, times))  # type: ignore[arg-type]
        self._rows.update(zip(keys, rows, strict=True))

    def write(self, ends: Mapping[TopicPartition, int]) -> None:
        if self._rows:
            self._store.write(self._rows, {self._name: ends[self._changelog]})
            self._rows = {}


def _kept_by_partition(place: Place, source: str, name: str) -> list[_Kept]:
    count = place.log.topics()[source].partitions
    place.log.create(Topic(changelog_of(name), count))
    return [_Kept(place, name, partition) for partition in range(count)]


class TableJoining:
    """All names come before the first event, also in time."""

    def __init__(self, place: Place) -> None:
        self._kept = _kept_by_partition(place, "names", "names")
        self._names: dict[bytes, str] = {}
        self._output = Output(place.log, "joined")

    def take(self, batch: Batch, send: Send) -> None:
        keys, values, times, _ = batch.columns
        if batch.source.topic == "names":
            rows = [_TIME.pack(time) + value for time, value in zip(times, values, strict=True)]  # type: ignore[operator]
            self._kept[batch.source.partition].put(send, keys, values, times, rows)  # type: ignore[arg-type]
            self._names.update(zip(keys, map(bytes.decode, values), strict=True))  # type: ignore[arg-type]
            return
        dumps, name_of = orjson.dumps, self._names.__getitem__
        events = map(orjson.loads, values)  # type: ignore[arg-type]
        joined = [dumps({**event, "name": name_of(key)}) for key, event in zip(keys, events, strict=True)]  # type: ignore[arg-type]
        self._output.send(send, keys, joined, times)  # type: ignore[arg-type]

    def flush(self, send: Send) -> None:
        pass

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        for kept in self._kept:
            kept.write(ends)


class StreamJoining:
    """Timestamps of each side ascend, so rows too old for one row of the other side are too old for all later ones.

    Nothing is deleted from the stores, and no record is late.
    """

    def __init__(self, place: Place, size: int) -> None:
        self._kept = {name: _kept_by_partition(place, name, name) for name in ("left", "right")}
        self._rows: dict[str, dict[bytes, deque[tuple[int, Any]]]] = {"left": {}, "right": {}}
        self._output = Output(place.log, "joined")
        self._size = size

    def take(self, batch: Batch, send: Send) -> None:
        side, partition = batch.source
        keys, values, times, _ = batch.columns
        numbered = zip(keys, times, batch.offsets, strict=True)
        places = [key + _PLACE.pack(time, number & 0xFFFFFFFF) for key, time, number in numbered]  # type: ignore[operator]
        self._kept[side][partition].put(send, places, values, times, values)  # type: ignore[arg-type]
        own, other, size = self._rows[side], self._rows["right" if side == "left" else "left"], self._size
        out: tuple[list[bytes], list[bytes], list[int]] = [], [], []
        for key, event, time in zip(keys, map(orjson.loads, values), times, strict=True):  # type: ignore[arg-type]
            own.setdefault(key, deque()).append((time, event))  # type: ignore[arg-type]
            near = other.get(key)  # type: ignore[arg-type]
            while near and near[0][0] < time - size:
                near.popleft()
            for other_time, found in near or ():
                if other_time > time + size:
                    break
                pair = (event, found) if side == "left" else (found, event)
                out[0].append(key)  # type: ignore[arg-type]
                out[1].append(orjson.dumps([pair[0]["ts"], pair[1]["ts"]]))
                out[2].append(max(time, other_time))
        self._output.send(send, *out)

    def flush(self, send: Send) -> None:
        pass

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        for kept in (*self._kept["left"], *self._kept["right"]):
            kept.write(ends)
