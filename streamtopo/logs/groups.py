"""How the members of a group share its work, in the logs that do this themselves (embedded and memory)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from streamtopo.errors import LogError
from streamtopo.logs import Topic
from streamtopo.records import TopicPartition

WorkUnit = TypeVar("WorkUnit")
SubscribedTopics = tuple[tuple[str, ...], ...]
"""The topics that a member reads. The topics of a tuple are assigned together, partition by partition."""


def share_of(
    member: str,
    members: Mapping[str, SubscribedTopics],
    owners: Mapping[TopicPartition, str],
    topics: Mapping[str, Topic],
) -> set[TopicPartition]:
    """The partitions that one member should own, once the other members have released them."""
    share: set[TopicPartition] = set()
    for subscribers, together in _by_subscribers(members).items():
        if member in subscribers:
            work = [unit for names in together for unit in _units([topics[name] for name in names if name in topics])]
            held = {unit: owners[part] for unit in work for part in unit if part in owners}
            shares = share_out(work, subscribers, held)
            share |= {part for unit, sharer in shares.items() if sharer == member for part in unit}
    return share


def _by_subscribers(members: Mapping[str, SubscribedTopics]) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """Topics that are assigned together, by the members that read them."""
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


def _spread(units: list[WorkUnit], count: int) -> list[WorkUnit]:
    """This many of them, evenly spread: neighbours in the list are partitions of the same topics."""
    return units if len(units) <= count else [units[place * len(units) // count] for place in range(count)]


def share_out(work: Iterable[WorkUnit], members: Sequence[str], owners: Mapping[WorkUnit, str]) -> dict[WorkUnit, str]:
    """A member for each unit of work. Members get equal shares, and keep the units that they own where possible.

    >>> share_out(["a", "b", "c"], ["m1", "m2"], {"a": "m1", "b": "m1", "c": "m1"})
    {'a': 'm1', 'b': 'm1', 'c': 'm2'}
    """
    units = list(work)
    if not members:
        return {}
    least, extra = divmod(len(units), len(members))
    held: dict[str, list[WorkUnit]] = {member: [] for member in members}
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
        raise LogError(
            f'group "{group}" has {count}, which would continue from the old positions; stop its workers first'
        )
