"""The step of a sink: encodes rows, finds their partitions, and puts them into the outbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo.engine.outbox import Outbox, Written
from streamtopo.errors import PartitionError
from streamtopo.partitioning import partitions_of
from streamtopo.processors import RecordContext
from streamtopo.records import NOTHING, Chunk, Columns, Step
from streamtopo.topology import Partitioner, SinkNode

ContextOf = Callable[[Chunk, int], RecordContext]
"""What a function of the record may ask about the row at a place."""


def sink_step(node: SinkNode, topic: str, outbox: Outbox, keyless: int, context_of: ContextOf) -> Step:
    """`keyless` is the partition that rows without a key stay with: the task's own."""

    def write(topic: str, chunk: Chunk) -> None:
        columns = Columns(
            node.key.encode_column(chunk.keys),
            node.value.encode_column(chunk.values),
            chunk.timestamps,
            chunk.headers,
        )
        count = outbox.count(topic)
        partitions = partitions_of(columns.keys, count, keyless)
        if node.partitioner is not None:
            partitions = _chosen(node.partitioner, topic, chunk, count, partitions)
        outbox.add(topic, Written(columns, partitions, chunk.order))

    def step(chunk: Chunk) -> Chunk:
        write(topic, chunk)
        return NOTHING

    def step_by_record(chunk: Chunk) -> Chunk:
        assert callable(node.topic)
        places_of: dict[str, list[int]] = {}
        for place, (key, value) in enumerate(zip(chunk.keys, chunk.values, strict=True)):
            places_of.setdefault(node.topic(key, value, context_of(chunk, place)), []).append(place)
        for name, places in places_of.items():
            write(name, chunk.take(places))
        return NOTHING

    return step_by_record if callable(node.topic) else step


def _chosen(partitioner: Partitioner, topic: str, chunk: Chunk, count: int, usual: list[int]) -> list[int]:
    def choose(key: Any, value: Any, otherwise: int) -> int:
        chosen = partitioner(topic, key, value, count)
        if chosen is None:
            return otherwise
        if not 0 <= chosen < count:
            raise PartitionError(
                f'the partitioner chose partition {chosen} of topic "{topic}"; return 0 to {count - 1}, or None'
            )
        return chosen

    return list(map(choose, chunk.keys, chunk.values, usual))
