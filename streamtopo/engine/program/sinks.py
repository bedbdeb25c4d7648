"""The step of a sink: encodes rows, finds their partitions, and puts them into the outbox."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from streamtopo.engine.program.outbox import Outbox, Written
from streamtopo.errors import PartitionError, SerdeError
from streamtopo.partitioning import partitions_of
from streamtopo.processors import RecordContext
from streamtopo.records import NOTHING, Chunk, ChunkFunction, Columns, Headers, size_of, within
from streamtopo.row_calls import converted, results_of
from streamtopo.serdes import STR, encoded
from streamtopo.topology.clocks import Bound, Register
from streamtopo.topology.names import valid_name
from streamtopo.topology.nodes import Partitioner, SinkNode

ContextOf = Callable[[Chunk, int], RecordContext]
"""The context of the row at a place, for functions of the user's."""


def sink_step(node: SinkNode, topic: str, outbox: Outbox, keyless: int, context_of: ContextOf) -> ChunkFunction:
    """`keyless` is the partition for rows without a key: that of the task."""
    write = _writer(node, outbox, keyless)

    def step(chunk: Chunk) -> Chunk:
        write(topic, chunk)
        return NOTHING

    def step_by_record(chunk: Chunk) -> Chunk:
        assert callable(node.topic)
        contexts = [context_of(chunk, place) for place in range(len(chunk))]
        chunk, names = results_of(partial(_topic, node.topic), chunk, chunk.keys, chunk.values, contexts)
        places_of: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            places_of.setdefault(name, []).append(place)
        for name, places in places_of.items():
            write(name, chunk.take(places))
        return NOTHING

    return step_by_record if callable(node.topic) else step


def _writer(node: SinkNode, outbox: Outbox, keyless: int) -> Callable[[str, Chunk], None]:
    encode_keys, encode_values = partial(encoded, node.key, what="key"), partial(encoded, node.value, what="value")

    def write(topic: str, chunk: Chunk) -> None:
        fitting, keys = converted(encode_keys, chunk, chunk.keys)
        # Nothing but a string equals one; of other types, 1.0 may equal a 1 without being as good.
        alike = node.key is node.value is STR and chunk.keys == chunk.values
        values = keys
        if fitting is chunk and not alike:
            fitting, values = converted(encode_values, chunk, chunk.values)
        count = outbox.count(topic)
        partitions = partitions_of(node.key.inner_keys(keys), count, keyless)
        if fitting is chunk and (limit := outbox.limits.get(topic)):
            headers = chunk.headers or [()] * len(chunk)
            fitting, _ = results_of(partial(_check_size, topic, limit), chunk, keys, values, headers)
        if fitting is not chunk:
            write(topic, fitting)  # rows were left out
            return
        written = replace(chunk, keys=keys, values=values)
        if node.partitioner is not None:
            # It may change values in place, so they are not encoded again if it fails on some.
            written, partitions = _chosen(node.partitioner, topic, chunk, written, count, partitions)
        columns = Columns(written.keys, written.values, written.timestamps, written.headers)
        outbox.add(topic, Written(columns, partitions, written.order))

    return write


def noting_times(step: ChunkFunction, latest: Register, bound: Bound) -> ChunkFunction:
    """The same step, which notes the latest time of a row that clocks follow."""

    def noting(chunk: Chunk) -> Chunk:
        latest.value = max(latest.value, *within(chunk.timestamps, bound.time))
        return step(chunk)

    return noting


def _check_size(topic: str, limit: int, key: bytes | None, value: bytes | None, headers: Headers) -> None:
    size = size_of(key, value, headers)
    if size > limit:
        advice = "raise the topic's max.message.bytes, and kafka.message.max.bytes in the URL"
        raise SerdeError(f'the record has {size:,} bytes; topic "{topic}" takes {limit:,}: {advice}')


def _topic(choose: Callable[..., str], key: Any, value: Any, context: RecordContext) -> str:
    chosen = choose(key, value, context)
    if not isinstance(chosen, str):
        raise PartitionError(f"the topic function returned {chosen!r:.80}; return the name of a topic")
    return valid_name(chosen, "topic")


def _chosen(
    partitioner: Partitioner, topic: str, chunk: Chunk, written: Chunk, count: int, usual: list[int]
) -> tuple[Chunk, list[int]]:
    """What is written of the rows that it does not fail on, and their partitions."""

    def choose(key: Any, value: Any, otherwise: int) -> int:
        chosen = partitioner(topic, key, value, count)
        if chosen is None:
            return otherwise
        if not isinstance(chosen, int) or not 0 <= chosen < count:
            raise PartitionError(
                f'the partitioner chose partition {chosen!r} of topic "{topic}"; return 0 to {count - 1}, or None'
            )
        return chosen

    return results_of(choose, written, chunk.keys, chunk.values, usual)
