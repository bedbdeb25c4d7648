"""Who works on what: the sharing out of work among a group's members, the same on every log that we run ourselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Unit = TypeVar("Unit")


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
    given = {unit: member for member in by_holding for unit in held[member][: room[member]]}
    spare = [member for member in by_holding for _ in range(room[member] - len(held[member]))]
    orphans = [unit for unit in units if unit not in given]
    return dict(given) | dict(zip(orphans, spare, strict=True))
