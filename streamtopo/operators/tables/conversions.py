"""Conversions: a stream read as a table, and a table read as a stream."""

from __future__ import annotations

from itertools import compress
from typing import Any

from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables.aggregate import Dropped
from streamtopo.records import OUTDATED, Chunk, ChunkFunction, has_null, private
from streamtopo.stores.rows.state import State
from streamtopo.stores.rows.versions import LATEST, Chain, latest, with_version
from streamtopo.topology.clocks import OperatorClock


def upsert(state: State, dropped: Dropped) -> Keeping:
    """The latest value of each key, in order of arrival; None deletes."""
    return Keeping(lambda chunk: put(state, keyed(chunk, dropped)), state)


def put(state: State, chunk: Chunk) -> Chunk:
    """Keep these rows. Returns what to forward now, with the old values if they are needed."""
    index = state.index(chunk.keys)
    rows = state.load(index)
    snapshot = state.snapshot
    for key, value, time in zip(index, chunk.values, chunk.timestamps, strict=True):
        rows[key] = None if value is None else (snapshot(value), time)
    return state.changed(index, updates(chunk))


def upsert_versions(state: State, time: OperatorClock, dropped: Dropped, *, sends_old: bool) -> Keeping:
    """Each update is a version that is valid from its timestamp on. Updates older than the history are dropped.

    Each update is forwarded. One that is not the latest version is marked as OUTDATED.
    """

    def step(chunk: Chunk) -> Chunk:
        chunk = keyed(chunk, dropped)
        index = state.index(chunk.keys)
        rows = state.load(index)
        time_before = time.time
        kept: list[bool] = []
        old: list[Any] = []
        chains: list[Chain] = []
        times: list[int] = []
        for key, value, timestamp in zip(index, chunk.values, chunk.timestamps, strict=True):
            kept.append(timestamp >= time.time - state.spec.retention)
            if not kept[-1]:
                continue
            time.observe(timestamp)
            row = rows[key]
            before: Chain = () if row is None else row[0]
            chain, valid_to = with_version(before, timestamp, private(value), time.time - state.spec.retention)
            rows[key] = (chain, timestamp) if chain else None
            chains.append(chain)
            times.append(max(time.time, 0))
            old.append(_old(before) if valid_to == LATEST else OUTDATED)
        dropped("older than the history", kept.count(False))
        chunk = chunk.select(kept)
        state.changed(list(compress(index, kept)), chunk.with_rows(chains, times), time_before=time_before)
        return chunk.with_old(old) if sends_old or OUTDATED in old else chunk

    return Keeping(step, state)


def _old(chain: Chain) -> Any:
    version = latest(chain)
    return version and private(version.value)


def passing(dropped: Dropped) -> ChunkFunction:
    """A table whose rows are not read keeps none: its updates are forwarded as they are."""
    return lambda chunk: keyed(chunk, dropped)


def updates(chunk: Chunk) -> Chunk:
    """The updates of a table as records of a stream, without old values."""
    return chunk if chunk.old is None else chunk.with_old(None)


def old_values(chunk: Chunk) -> list[Any]:
    """The old values of updates, from a table that sends them."""
    assert chunk.old is not None or not len(chunk), "old values must be asked for when the topology is described"
    return chunk.old or []


def keyed(chunk: Chunk, dropped: Dropped) -> Chunk:
    if not has_null(chunk.keys):
        return chunk
    mask = [key is not None for key in chunk.keys]
    dropped("null key", mask.count(False))
    return chunk.select(mask)
