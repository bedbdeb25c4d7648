"""What sinks wrote in a pass: sorted if several sinks share a topic, split by partition, and sent at its end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from streamtopo.records import Columns, Order, TopicPartition, join_columns, made_from, without


class Written(NamedTuple):
    """One sink's rows for one topic."""

    columns: Columns
    partitions: list[int]
    order: list[Order] | None


class Outbox:
    def __init__(self, send: Callable[[TopicPartition, Columns], None], count: Callable[[str], int]) -> None:
        self.count = count
        """How many partitions a topic has."""
        self.limits: dict[str, int] = {}
        """How many bytes a record may have, for topics that have refused one as too large. To compare takes time."""
        self._send = send
        self._written: dict[str, list[Written]] = {}

    def add(self, topic: str, written: Written) -> None:
        self._written.setdefault(topic, []).append(written)

    def leave_out(self, numbers: Collection[int]) -> None:
        """Drop all rows that were made from these records."""
        for written in self._written.values():
            for place, (columns, partitions, order) in enumerate(written):
                if gone := made_from(order or (), numbers):
                    columns = Columns(*(column and without(column, gone) for column in columns))  # type: ignore[arg-type]
                    written[place] = Written(columns, without(partitions, gone), order and without(order, gone))

    def discard(self) -> None:
        """The pass failed: forget what it wrote so far."""
        self._written.clear()

    def close_pass(self) -> None:
        """Send what the pass wrote."""
        for topic, written in self._written.items():
            columns, partitions, _ = written[0] if len(written) == 1 else _in_order(written)
            for partition, part in _by_partition(columns, partitions).items():
                self._send(TopicPartition(topic, partition), part)
        self._written.clear()


def _in_order(several: list[Written]) -> Written:
    order = [place for written in several for place in written.order or ()]
    partitions = [partition for written in several for partition in written.partitions]
    columns = join_columns([written.columns for written in several])
    rows = sorted(range(len(partitions)), key=order.__getitem__) if order else list(range(len(partitions)))
    return Written(pick(columns, rows), [partitions[row] for row in rows], None)


def _by_partition(columns: Columns, partitions: list[int]) -> dict[int, Columns]:
    used = sorted(set(partitions))
    if len(used) == 1:
        return {used[0]: columns}
    headed = columns.headers is not None
    parts = {partition: Columns([], [], [], [] if headed else None) for partition in used}
    adders = {part: (c.keys.append, c.values.append, c.timestamps.append) for part, c in parts.items()}
    for partition, key, value, timestamp in zip(partitions, *columns[:3], strict=True):
        add_key, add_value, add_timestamp = adders[partition]
        add_key(key)
        add_value(value)
        add_timestamp(timestamp)
    for partition, headers in zip(partitions, columns.headers or (), strict=False):
        parts[partition].headers.append(headers)  # type: ignore[union-attr]
    return parts


def pick(columns: Columns, rows: list[int]) -> Columns:
    return Columns(*(column and list(map(column.__getitem__, rows)) for column in columns))  # type: ignore[arg-type]
