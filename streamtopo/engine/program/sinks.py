"""The step of a sink: encodes rows, finds their partitions, and puts them into the outbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo.engine.program.outbox import Outbox, Written
from streamtopo.errors import PartitionError
from streamtopo.partitioning import partitions_of
from streamtopo.processors import RecordContext
from streamtopo.records import NOTHING, Chunk, ChunkFunction, Columns, each_row, within
from streamtopo.serdes import STR, encoded
from streamtopo.topology.clocks import Bound, Register
from streamtopo.topology.names import valid_name
from streamtopo.topology.nodes import Partitioner, SinkNode

ContextOf = Callable[[Chunk, int], RecordContext]
"""The context of the row at a place, for functions of the user's."""


def sink_step(node: SinkNode, topic: str, outbox: Outbox, keyless: int, context_of: ContextOf) -> ChunkFunction:
    """`keyless` is the partition for rows without a key: that of the task."""

    def write(topic: str, chunk: Chunk) -> None:
        keys = encoded(node.key, chunk.keys, "key")
        # Nothing but a string equals one; of other types, 1.0 may equal a 1 without being as good.
        alike = node.key is node.value is STR and chunk.keys == chunk.values
        values = keys if alike else encoded(node.value, chunk.values, "value")
        columns = Columns(keys, values, chunk.timestamps, chunk.headers)
        count = outbox.count(topic)
        partitions = partitions_of(node.key.inner_keys(keys), count, keyless)
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
            chosen = node.topic(key, value, context_of(chunk, place))
            if not isinstance(chosen, str):
                raise PartitionError(f"the topic function returned {chosen!r:.80}; return the name of a topic")
            places_of.setdefault(valid_name(chosen, "topic"), []).append(place)
        for name, places in places_of.items():
            write(name, chunk.take(places))
        return NOTHING

    return step_by_record if callable(node.topic) else step


def noting_times(step: ChunkFunction, latest: Register, bound: Bound) -> ChunkFunction:
    """The same step, which notes the latest time of a row that clocks follow."""

    def noting(chunk: Chunk) -> Chunk:
        latest.value = max(latest.value, *within(chunk.timestamps, bound.time))
        return step(chunk)

    return noting


def _chosen(partitioner: Partitioner, topic: str, chunk: Chunk, count: int, usual: list[int]) -> list[int]:
    def choose(key: Any, value: Any, otherwise: int) -> int:
        chosen = partitioner(topic, key, value, count)
        if chosen is None:
            return otherwise
        if not isinstance(chosen, int) or not 0 <= chosen < count:
            raise PartitionError(
                f'the partitioner chose partition {chosen!r} of topic "{topic}"; return 0 to {count - 1}, or None'
            )
        return chosen

    return each_row(choose, chunk.keys, chunk.values, usual)
