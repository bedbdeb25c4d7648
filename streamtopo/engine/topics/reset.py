"""Resets an application: where it continues to read, and which of its topics and state are deleted for that."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from streamtopo.engine.compatibility.fingerprint import Fingerprint, note_of, unfinished
from streamtopo.errors import LogError
from streamtopo.logs import Log
from streamtopo.logs.groups import check_no_members
from streamtopo.records import Position, TopicPartition
from streamtopo.stores.backends.directory import StateDirectory
from streamtopo.topology import Topology

Where = Callable[[Log, TopicPartition, int | None], int | None]
"""From the offset of a group in a partition (None: no offset yet) to the new one; None changes nothing."""
_PAUSE = 0.1


class Move(NamedTuple):
    partition: TopicPartition
    before: int | None
    after: int


class Reset(NamedTuple):
    group: str
    moves: list[Move]
    kept: dict[TopicPartition, Position]
    """The positions in other topics, where the group continues to read."""
    topics: list[str]
    """The repartition topics and changelogs to delete: all, also those of earlier versions, or the chosen ones."""


def to_earliest(log: Log, partition: TopicPartition, before: int | None) -> int:
    return log.start(partition)


def to_latest(log: Log, partition: TopicPartition, before: int | None) -> int:
    return log.end(partition)


def to_offset(offset: int) -> Where:
    return lambda log, partition, before: offset


def to_time(timestamp: int) -> Where:
    return lambda log, partition, before: log.offset_at(partition, timestamp)


def shift_by(records: int) -> Where:
    return lambda log, partition, before: (log.start(partition) if before is None else before) + records


def plan_reset(
    topology: Topology, log: Log, where: Where, topics: Collection[str] = (), internal_topics: Collection[str] = ()
) -> Reset:
    """Move the application in all topics that it reads, or in `topics`; offsets stay between start and end of a topic.

    All its internal topics are deleted, or only those in `internal_topics`.
    """
    existing = log.topics()
    internal = _internal(topology, log.note(note_of(topology))) & existing.keys()
    read = _read(topology, existing.keys() - internal - topology.repartitions.keys())
    _check(f'"{topology.application_id}" does not read the topic', topics, read)
    _check(f'"{topology.application_id}" has no internal topic', internal_topics, internal)
    going = set(internal_topics) or internal
    state = log.group(topology.application_id)
    before = {partition: position.offset for partition, position in state.positions.items()} if state else {}
    chosen = [TopicPartition(name, n) for name in sorted(topics) or read for n in range(existing[name].partitions)]
    moves = []
    for partition in chosen:
        offset = where(log, partition, before.get(partition))
        if offset is not None:
            inside = min(max(offset, log.start(partition)), log.end(partition))
            moves.append(Move(partition, before.get(partition), inside))
    moved = {move.partition for move in moves}
    others = existing.keys() - going
    kept = {part: Position(at) for part, at in before.items() if part.topic in others and part not in moved}
    return Reset(topology.application_id, moves, kept, sorted(going))


def _check(said: str, named: Collection[str], known: Collection[str]) -> None:
    for unknown in sorted(set(named) - set(known)):
        raise LogError(f'{said} "{unknown}"; it has: {", ".join(sorted(known)) or "none"}')


def _read(topology: Topology, topics: Collection[str]) -> list[str]:
    """The topics with positions of the application; topics of global stores are read again at every start."""
    sources = [source for part in topology.subtopologies() for source in part.sources]
    return sorted(name for name in topics if any(source.reads(name) for source in sources))


def _internal(topology: Topology, note: str | None) -> set[str]:
    changelogs = map(topology.changelog_of, topology.stores)
    return {*map(topology.topic_of, topology.repartitions), *changelogs, *Fingerprint.read(note).topics}


def reset(topology: Topology, log: Log, planned: Reset, state: StateDirectory) -> None:
    """Do what was planned. No worker may be running.

    No worker can start until all of it is done: it would read from the new position with the old state.
    """
    wait_until_unused(log, planned.group, 0)
    state.delete()
    note = note_of(topology)
    log.write_note(note, unfinished(log.note(note)))
    for topic in planned.topics:
        log.delete(topic)
    log.place_group(planned.group, planned.kept | {move.partition: Position(move.after) for move in planned.moves})
    log.write_note(note, "")


def wait_until_unused(log: Log, group: str, patience: float) -> None:
    """Raise an error if the group still has members after `patience` seconds."""
    deadline = time.monotonic() + patience
    while (state := log.group(group)) is not None and state.members:
        if time.monotonic() >= deadline:
            check_no_members(group, state.members)
        time.sleep(_PAUSE)
