"""SQL statements about the members, owners and positions of groups. They run in the transaction of the caller."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streamtopo.errors import LogError
from streamtopo.logs import GroupProgress, GroupState
from streamtopo.logs.embedded.storage.statements import bump_generation, topics
from streamtopo.logs.groups import SubscribedTopics, share_of
from streamtopo.records import Position, TopicPartition


class Owner(NamedTuple):
    member: str
    epoch: int


class Membership(NamedTuple):
    members: dict[str, SubscribedTopics]
    owners: dict[TopicPartition, Owner]


def load(connection: sqlite3.Connection, group: str) -> Membership:
    members = connection.execute("SELECT id, topics FROM members WHERE group_name = ? ORDER BY rowid", (group,))
    owners = connection.execute(
        "SELECT t.name, o.partition, o.member, o.epoch FROM owners o JOIN topics t ON t.id = o.topic "
        "WHERE o.group_name = ?",
        (group,),
    )
    return Membership(
        {id: tuple(tuple(names) for names in json.loads(subscribed)) for id, subscribed in members.fetchall()},
        {TopicPartition(topic, number): Owner(member, epoch) for topic, number, member, epoch in owners.fetchall()},
    )


def groups(connection: sqlite3.Connection) -> dict[str, GroupState]:
    """Every group in the tables, with its registered members: some of them may be dead."""
    rows = connection.execute("SELECT group_name FROM members UNION SELECT group_name FROM positions ORDER BY 1")
    return {group: _state(connection, group) for (group,) in rows.fetchall()}


def _state(connection: sqlite3.Connection, group: str) -> GroupState:
    known = load(connection, group)
    owned = {id: frozenset(part for part, owner in known.owners.items() if owner.member == id) for id in known.members}
    return GroupState(owned, positions(connection, group))


def share(connection: sqlite3.Connection, membership: Membership, member: str) -> set[TopicPartition]:
    """The partitions that the member should own, once other members have released them."""
    described = {name: topic for name, (_, topic) in topics(connection).items()}
    owners = {partition: owner.member for partition, owner in membership.owners.items()}
    return share_of(member, membership.members, owners, described)


def register(connection: sqlite3.Connection, group: str, member: str, topics: SubscribedTopics) -> None:
    connection.execute(
        "INSERT INTO members (id, group_name, topics, pid) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET topics = excluded.topics",
        (member, group, json.dumps(topics), os.getpid()),
    )
    bump_generation(connection)


def take(connection: sqlite3.Connection, group: str, member: str, partition: TopicPartition) -> int:
    """Return the epoch: a number that no ownership had before."""
    added = connection.execute(
        "INSERT INTO owners (group_name, topic, partition, member) SELECT ?, id, ?, ? FROM topics WHERE name = ?",
        (group, partition.partition, member, partition.topic),
    )
    bump_generation(connection)
    assert added.lastrowid is not None
    return added.lastrowid


def release(connection: sqlite3.Connection, epochs: Iterable[int]) -> None:
    connection.executemany("DELETE FROM owners WHERE epoch = ?", ((epoch,) for epoch in epochs))
    bump_generation(connection)


def remove(connection: sqlite3.Connection, member: str) -> None:
    connection.execute("DELETE FROM members WHERE id = ?", (member,))
    connection.execute("DELETE FROM owners WHERE member = ?", (member,))
    bump_generation(connection)


def owned(connection: sqlite3.Connection, member: str) -> dict[TopicPartition, tuple[int, int]]:
    """The epoch of each partition that the member owns, and the id of its topic."""
    rows = connection.execute(
        "SELECT t.name, o.partition, o.epoch, o.topic FROM owners o JOIN topics t ON t.id = o.topic WHERE o.member = ?",
        (member,),
    )
    return {TopicPartition(topic, number): (epoch, id) for topic, number, epoch, id in rows.fetchall()}


def write_positions(
    connection: sqlite3.Connection, group: str, positions: Mapping[TopicPartition, Position], ids: Mapping[str, int]
) -> None:
    connection.executemany(
        "INSERT INTO positions (group_name, topic, partition, next_offset, metadata) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (group_name, topic, partition) "
        "DO UPDATE SET next_offset = excluded.next_offset, metadata = excluded.metadata",
        [(group, ids[part.topic], part.partition, *position) for part, position in positions.items()],
    )


def replace_positions(connection: sqlite3.Connection, group: str, positions: Mapping[TopicPartition, Position]) -> None:
    connection.execute("DELETE FROM positions WHERE group_name = ?", (group,))
    write_positions(connection, group, positions, {name: id for name, (id, _) in topics(connection).items()})


def progress(connection: sqlite3.Connection, group: str, partition: TopicPartition) -> GroupProgress:
    row = connection.execute(
        "SELECT coalesce(g.next_offset, p.start_offset), p.next_offset "
        "FROM topics t JOIN partitions p ON p.topic = t.id "
        "LEFT JOIN positions g ON g.topic = p.topic AND g.partition = p.partition AND g.group_name = ? "
        "WHERE t.name = ? AND p.partition = ?",
        (group, *partition),
    ).fetchone()
    if row is None:
        raise LogError(f"partition {partition} does not exist; create the topic first")
    return GroupProgress(*row)


def positions(connection: sqlite3.Connection, group: str) -> dict[TopicPartition, Position]:
    rows = connection.execute(
        "SELECT t.name, p.partition, p.next_offset, p.metadata FROM positions p JOIN topics t ON t.id = p.topic "
        "WHERE p.group_name = ?",
        (group,),
    )
    return {TopicPartition(topic, number): Position(offset, text) for topic, number, offset, text in rows.fetchall()}
