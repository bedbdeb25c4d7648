"""Bare counting by key and session: a session that grows is deleted and written again with its new end."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from benchmarks.bare.counting import decode
from benchmarks.bare.loop import Send
from benchmarks.bare.numbers import NUMBER, changelog_of
from benchmarks.places import Place
from streamtopo.logs import Topic
from streamtopo.records import Batch, Columns, TopicPartition

_ENDS = struct.Struct(">qq")


class SessionCounting:
    """Timestamps ascend, so only the last session of a key can grow; no session expires."""

    def __init__(self, place: Place, source: str, output: str, gap: int) -> None:
        count = place.log.topics()[source].partitions
        place.log.create(Topic(changelog_of("sessions"), count))
        self._stores = [place.open_rows() for _ in range(count)]
        self._open: dict[bytes, tuple[bytes, int, int, int]] = {}
        self._changes: list[dict[bytes, tuple[bytes, int, int] | None]] = [{} for _ in range(count)]
        """Key, count and end of each session; None for one that was deleted."""
        self._written: set[bytes] = set()
        self._rows: list[tuple[int, dict[bytes, bytes | None]]] = []
        self._topic, self._gap = output, gap

    def take(self, batch: Batch, send: Send) -> None:
        decode(batch)
        changes, sessions, gap = self._changes[batch.source.partition], self._open, self._gap
        for key, time in zip(batch.columns.keys, batch.columns.timestamps, strict=True):
            before, start, end, count = sessions.get(key, (b"", time, time, 0))  # type: ignore[arg-type]
            if time - end > gap:
                start, count = time, 0
            elif before:
                changes.pop(before, None)
                if before in self._written:
                    changes[before] = None
            place = key + _ENDS.pack(time, start)  # type: ignore[operator]
            sessions[key] = place, start, time, count + 1  # type: ignore[index]
            changes[place] = key, count + 1, time  # type: ignore[assignment]

    def flush(self, send: Send) -> None:
        for partition, changes in enumerate(self._changes):
            if not changes:
                continue
            values = [row and NUMBER.pack(row[1]) for row in changes.values()]
            times = [row[2] if row else 0 for row in changes.values()]
            columns = Columns(list(changes), values, times)
            send(TopicPartition(changelog_of("sessions"), partition), columns)
            send(TopicPartition(self._topic, partition), columns)  # the partitions are those of the inner keys
            self._written.update(changes)
            self._rows.append((partition, dict(zip(changes, values, strict=True))))
            self._changes[partition] = {}

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        for partition, rows in self._rows:
            changelog = TopicPartition(changelog_of("sessions"), partition)
            self._stores[partition].write(rows, {"sessions": ends[changelog]})
        self._rows = []
