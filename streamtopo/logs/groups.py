"""Who works on what: the sharing out of work among a group's members, the same on every log that we run ourselves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from streamtopo.errors import LogError
from streamtopo.logs import Topic
from streamtopo.records import TopicPartition

Unit = TypeVar("Unit")
Subscription = tuple[tuple[str, ...], ...]
"""The topics a member shares in; each tuple is shared out as one, partition by partition."""


def share_of(
    member: str,
    members: Mapping[str, Subscription],
    owners: Mapping[TopicPartition, str],
    topics: Mapping[str, Topic],
) -> set[TopicPartition]:
    """What one member should work on, as far as the others let go of it."""
    share: set[TopicPartition] = set()
    for subscribers, together in _by_subscribers(members).items():
        if member in subscribers:
            work = [unit for names in together for unit in _units([topics[name] for name in names if name in topics])]
            held = {unit: owners[part] for unit in work for part in unit if part in owners}
            shares = share_out(work, subscribers, held)
            share |= {part for unit, sharer in shares.items() if sharer == member for part in unit}
    return share


def _by_subscribers(members: Mapping[str, Subscription]) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """Topics that are shared out as one, by the members who do share in them."""
    together = sorted({names for subscribed in members.values() for names in subscribed})
    found: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for names in together:
        found.setdefault(tuple(member for member in members if names in members[member]), []).append(names)
    return found


def _units(topics: list[Topic]) -> list[tuple[TopicPartition, ...]]:
    most = max((topic.partitions for topic in topics), default=0)
    return [
        tuple(TopicPartition(topic.name, number) for topic in topics if number < topic.partitions)
        for number in range(most)
    ]


def _spread(units: list[Unit], count: int) -> list[Unit]:
    """So many of them, from all over: what lies side by side are partitions of the same topics."""
    return units if len(units) <= count else [units[place * len(units) // count] for place in range(count)]


def share_out(work: Iterable[Unit], members: Sequence[str], owners: Mapping[Unit, str]) -> dict[Unit, str]:
    """A member for each unit of work: even, and everyone keeps what it has as far as evenness allows.

    >>> share_out(["a", "b", "c"], ["m1", "m2"], {"a": "m1", "b": "m1", "c": "m1"})
    {'a': 'm1', 'b': 'm1', 'c': 'm2'}
    """
    units = list(work)
    if not members:
        return {}
    least, extra = divmod(len(units), len(members))
    held: dict[str, list[Unit]] = {member: [] for member in members}
    for unit in units:
        if (owner := owners.get(unit)) in held:
            held[owner].append(unit)
    by_holding = sorted(members, key=lambda member: (-len(held[member]), member))
    room = {member: least + (1 if place < extra else 0) for place, member in enumerate(by_holding)}
    given = {unit: member for member in by_holding for unit in _spread(held[member], room[member])}
    spare = [member for turn in range(least + 1) for member in by_holding if len(held[member]) <= turn < room[member]]
    orphans = [unit for unit in units if unit not in given]
    return dict(given) | dict(zip(orphans, spare, strict=True))


def check_no_members(group: str, members: Collection[str]) -> None:
    if members:
        count = f"{len(members)} member{'s' if len(members) > 1 else ''} alive"
        raise LogError(f'group "{group}" has {count}, which would go on from where it was; stop its workers first')
