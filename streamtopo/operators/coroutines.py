"""Steps of coroutines: many calls run at once, and rows are forwarded in the order in which they came."""

from __future__ import annotations

from typing import Any

from streamtopo.records import Chunk, ChunkFunction, without
from streamtopo.row_calls import noted
from streamtopo.topology.coroutines import Awaiting, CallLimits, Coroutine, Raised


def map_values_async(function: Coroutine, limits: CallLimits, awaiting: Awaiting) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        chunk, values = _without_failed(chunk, awaiting(function, [chunk.values], limits))
        return chunk.with_values(values)

    return step


def for_each_async(function: Coroutine, limits: CallLimits, awaiting: Awaiting) -> ChunkFunction:
    def step(chunk: Chunk) -> Chunk:
        return _without_failed(chunk, awaiting(function, [chunk.keys, chunk.values], limits))[0]

    return step


def _without_failed(chunk: Chunk, results: list[Any]) -> tuple[Chunk, list[Any]]:
    """The rows whose calls have results, and these."""
    failed = [place for place, result in enumerate(results) if type(result) is Raised]
    for place in failed:
        if not noted(chunk, place, results[place].error):
            raise results[place].error
    return (chunk.without(failed), without(results, failed)) if failed else (chunk, results)
