"""Steps at the edges of tables: a topic or a stream read as one, and a table read as a stream."""

from __future__ import annotations

from itertools import compress
from typing import Any

from streamtopo.operators.aggregate import Dropped
from streamtopo.operators.keeping import Keeping
from streamtopo.records import OUTDATED, Chunk, Step, has_null, private
from streamtopo.stores.state import State
from streamtopo.stores.versions import LATEST, Chain, latest, with_version
from streamtopo.topology import OperatorClock


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


def upsert_versions(state: State, time: OperatorClock, dropped: Dropped, *, sends_old: bool) -> Keeping:
    """Each update is a version from its timestamp on; those older than the history are dropped.

    What is forwarded is the update; one that is not the latest is marked as OUTDATED.
    """

    def step(chunk: Chunk) -> Chunk:
        chunk = keyed(chunk, dropped)
        index = state.index(chunk.keys)
        rows = state.load(index)
        state.time_before = time.time
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
            times.append(time.time)
            old.append(_old(before) if valid_to == LATEST else OUTDATED)
        dropped("older than the history", kept.count(False))
        chunk = chunk.select(kept)
        state.changed(list(compress(index, kept)), chunk.with_rows(chains, times))
        return chunk.with_old(old) if sends_old or OUTDATED in old else chunk

    return Keeping(step, state)


def _old(chain: Chain) -> Any:
    version = latest(chain)
    return version and private(version.value)


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
    if not has_null(chunk.keys):
        return chunk
    mask = [key is not None for key in chunk.keys]
    dropped("null key", mask.count(False))
    return chunk.select(mask)
