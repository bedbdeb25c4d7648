"""Steps of coroutines: many calls run at once, and rows are forwarded in the order in which they came."""

from __future__ import annotations

from streamtopo.records import Chunk, ChunkFunction
from streamtopo.topology.coroutines import Awaiting, CallLimits, Coroutine


def map_values_async(function: Coroutine, limits: CallLimits, awaiting: Awaiting) -> ChunkFunction:
    return lambda chunk: chunk.with_values(awaiting(function, [chunk.values], limits))


def for_each_async(function: Coroutine, limits: CallLimits, awaiting: Awaiting) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        awaiting(function, [chunk.keys, chunk.values], limits)
        return chunk

    return step
