"""Steps at the edges of tables: a topic or a stream read as one, and a table read as a stream."""

from __future__ import annotations

from typing import Any

from streamtopo.operators.aggregate import Dropped
from streamtopo.operators.keeping import Keeping
from streamtopo.records import Chunk, Step
from streamtopo.stores.state import State


def upsert(state: State, dropped: Dropped) -> Keeping:
    """The latest value of each key, in order of arrival; None deletes."""
    return Keeping(lambda chunk: put(state, keyed(chunk, dropped)), state)


def put(state: State, chunk: Chunk) -> Chunk:
    """Keep these rows; returns what to forward now, with the old values that were kept if those are asked for."""
    index = state.index(chunk.keys)
    rows = state.load(index)
    snapshot = state.snapshot
    for key, value, time in zip(index, chunk.values, chunk.timestamps, strict=True):
        rows[key] = None if value is None else (snapshot(value), time)
    return state.changed(index, updates(chunk))


def passing(dropped: Dropped) -> Step:
    """A table that nobody looks into needs no rows: its updates pass through."""
    return lambda chunk: keyed(chunk, dropped)


def updates(chunk: Chunk) -> Chunk:
    """A table's updates as records of a stream, which have no old values."""
    return chunk if chunk.old is None else chunk.with_old(None)


def old_values(chunk: Chunk) -> list[Any]:
    """Of the updates of a table that was asked to send them."""
    assert chunk.old is not None or not len(chunk), "whoever needs old values asks for them when it is described"
    return chunk.old or []


def keyed(chunk: Chunk, dropped: Dropped) -> Chunk:
    if None not in chunk.keys:
        return chunk
    mask = [key is not None for key in chunk.keys]
    dropped("null key", mask.count(False))
    return chunk.select(mask)
