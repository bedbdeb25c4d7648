"""What a task knows of the tasks that write a repartition topic: its origins.

Several tasks write one partition, each at its own pace. If clocks followed the fastest, the rows of the others would be
late. So each announces its time, and clocks wait for those that are behind.
"""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from streamtopo.engine.task.marks import Mark
from streamtopo.engine.task.options import TaskId
from streamtopo.records import TopicPartition
from streamtopo.windows import FOREVER

Unread = Mapping[TaskId, frozenset[TopicPartition]]
"""The tasks for which something was found unread, and what."""

_UNHEARD = -2
"""Instead of a time: the origin has announced nothing so far."""


@dataclass(frozen=True)
class Known:
    """At one moment. Each list has one item for each origin."""

    times: tuple[int, ...]
    caught_up: tuple[bool, ...]
    lenient: bool = False
    """Rows of an older version may be left, which wrote no marks: no limit until each origin has announced its time."""

    @cached_property
    def behind(self) -> int:
        """The lowest time of an origin that has not caught up; -1 if one of them has announced nothing so far."""
        if min(self.times) == _UNHEARD:
            return FOREVER if self.lenient else -1
        times = zip(self.times, self.caught_up, strict=True)
        return min([time for time, caught_up in times if not caught_up], default=FOREVER)

    @cached_property
    def lowest(self) -> int:
        """The lowest time of all origins."""
        return FOREVER if self.lenient else max(-1, min(self.times))

    @cached_property
    def latest(self) -> int:
        """The latest time of all origins."""
        return max(-1, *self.times)

    @cached_property
    def slowest(self) -> int:
        """The place of the origin with the lowest time."""
        return min(range(len(self.times)), key=self.times.__getitem__)

    @cached_property
    def last(self) -> int:
        """The place of the one whose time is `behind`."""
        places = [place for place, caught_up in enumerate(self.caught_up) if not caught_up]
        unheard = self.times[self.slowest] == _UNHEARD
        return self.slowest if unheard else min(places, key=self.times.__getitem__, default=self.slowest)

    @cached_property
    def settled(self) -> bool:
        """Whether all origins are known and have processed all records that there were."""
        return all(self.caught_up) and min(self.times) != _UNHEARD


class WaitedFor(NamedTuple):
    """The origin that holds a horizon, and what it has announced."""

    origin: TaskId
    time: int | None
    """None if it has announced nothing so far."""
    caught_up: bool


class Origins:
    """Those of one partition."""

    def __init__(self, ids: Sequence[TaskId], known: Known) -> None:
        self.ids = ids
        self.known = known
        self._index = {id: index for index, id in enumerate(ids)}
        self._marks: list[tuple[int, Mark]] = []
        """Those read since the last commit, with their offsets."""
        self._heard = 0
        """How many of them count already."""

    def note(self, marks: Iterable[tuple[int, Mark]]) -> None:
        """These were read; they count when the rows before them have been processed."""
        self._marks += marks

    def hear(self, *, before: int) -> None:
        """All rows before this offset have been processed."""
        while self._heard < len(self._marks) and self._marks[self._heard][0] < before:
            self.known = self._after(self._marks[self._heard][1])
            self._heard += 1

    def go_back(self, known: Known, offset: int) -> None:
        """After a rollback to this offset."""
        self.known = known
        self._heard = bisect_left(self._marks, offset, key=itemgetter(0))

    def forget(self, *, before: int) -> None:
        """After a commit at this offset: there will be no rollback behind it."""
        gone = bisect_left(self._marks, before, key=itemgetter(0))
        del self._marks[:gone]
        self._heard -= gone

    def silent(self, time: int) -> list[TaskId]:
        """Those that have caught up, but not announced this time."""
        one_by_one = zip(self.ids, self.known.times, self.known.caught_up, strict=True)
        return [id for id, announced, caught_up in one_by_one if caught_up and announced < time]

    def waited_for(self, horizon: int, unread: Unread = MappingProxyType({})) -> WaitedFor:
        """The one that holds this horizon; among several that have caught up, one with unread records."""
        known = self.known
        if known.behind <= horizon:
            place = known.last
        else:
            places = [self._index[id] for id in unread if id in self._index]
            slow = [one for one in places if known.times[one] <= horizon]
            place = min(slow, key=known.times.__getitem__, default=known.slowest)
        time = known.times[place]
        return WaitedFor(self.ids[place], None if time == _UNHEARD else time, known.caught_up[place])

    def _after(self, mark: Mark) -> Known:
        times, caught_up = list(self.known.times), list(self.known.caught_up)
        for origin, time, is_caught_up in mark:
            index = self._index.get(origin)
            if index is not None:
                times[index], caught_up[index] = time, is_caught_up
        lenient = self.known.lenient and _UNHEARD in times
        return replace(self.known, times=tuple(times), caught_up=tuple(caught_up), lenient=lenient)


# -- in the metadata of a position


def packed_origins(origins: Origins, room: int) -> dict[str, Any] | None:
    """Each origin takes one to ten bytes. If that is more than the room, times are rounded down, or left out.

    `room` is in characters. As JSON, an entry is a little shorter than as `str`.
    """
    known = origins.known
    if known.lenient:
        return None
    newest = max(0, *known.times)
    unit = 1
    while True:
        packed = {
            str(number): base64.b85encode(b"".join(_entries(list(of_one), newest, unit))).decode()
            for number, of_one in groupby(zip(origins.ids, known.times, known.caught_up, strict=True), _subtopology)
        }
        entry = {"newest": newest, "unit": unit, "of": packed}
        if len(str(entry)) <= room:
            return entry
        if unit > newest:
            return None
        unit *= 16


def recalled(ids: Sequence[TaskId], packed: dict[str, Any] | None, *, older: bool) -> Known:
    """`older`: the position remembers other things, but may be of a version that knew no origins."""
    if packed is None:
        return Known((_UNHEARD,) * len(ids), (False,) * len(ids), lenient=older)
    found = _unpacked(packed)
    entries = [found.get(id, (_UNHEARD, False)) for id in ids]
    return Known(tuple([time for time, _ in entries]), tuple([caught_up for _, caught_up in entries]))


def waited_for(packed: dict[str, Any], horizon: int) -> WaitedFor:
    """The same for those who see only the position."""
    ids = list(_unpacked(packed))
    return Origins(ids, recalled(ids, packed, older=False)).waited_for(horizon)


def _unpacked(packed: dict[str, Any]) -> dict[TaskId, tuple[int, bool]]:
    found: dict[TaskId, tuple[int, bool]] = {}
    for number, text in packed["of"].items():
        for partition, entry in enumerate(_read_entries(base64.b85decode(text), packed["newest"], packed["unit"])):
            found[TaskId(int(number), partition)] = entry
    return found


def _subtopology(entry: tuple[TaskId, int, bool]) -> int:
    return entry[0].subtopology


def _entries(several: list[tuple[TaskId, int, bool]], newest: int, unit: int) -> Iterator[bytes]:
    """In the order of the partitions: how far each is behind the newest, in units, and two bits."""
    for _, time, caught_up in several:
        behind = -(-(newest - time) // unit)
        yield _varint(0 if time == _UNHEARD else (behind << 2) + (2 if caught_up else 0) + 1)


def _read_entries(data: bytes, newest: int, unit: int) -> Iterator[tuple[int, bool]]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield (max(-1, newest - (number >> 2) * unit), bool(number & 2)) if number else (_UNHEARD, False)
            number = shift = 0


def _varint(number: int) -> bytes:
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)
