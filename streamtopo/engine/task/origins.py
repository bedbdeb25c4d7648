"""What a task knows of the tasks that write a repartition topic, and how far its clocks may go by that.

Several tasks write one partition, each at its own pace. If clocks followed the fastest, the rows of the others would be
late. So clocks stop at the horizon: no task that is still behind may have rows with earlier times than that.
"""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from streamtopo.engine.task.marks import Mark
from streamtopo.engine.task.options import TaskId
from streamtopo.records import TopicPartition
from streamtopo.windows import FOREVER

AllRead = Callable[[Iterable[TaskId], int], bool]
"""Whether each of these tasks had nothing to read at some moment since a time of the wall clock."""

Unread = Callable[[TaskId], Collection[TopicPartition]]
"""What a task reads that had unread records when this was last looked at, if it was."""

_UNHEARD = -2
"""Instead of a time: the origin has announced nothing so far."""
_MOST_PACKED = 2_600
"""Characters. Kafka accepts 4,096 for all that a position remembers."""


@dataclass(frozen=True)
class Known:
    """At one moment. Each list has one item for each origin."""

    times: tuple[int, ...]
    caught_up: tuple[bool, ...]
    aged: int = -1
    """The newest time that was announced so long ago that origins which have caught up are not waited for."""
    lenient: bool = False
    """Rows of an older version may be left, which wrote no marks: no limit until each origin has announced its time."""

    @cached_property
    def horizon(self) -> int:
        times = self.times
        if min(times) == _UNHEARD:
            return FOREVER if self.lenient else -1
        if all(self.caught_up):
            return max(min(times), self.aged)
        behind = min([time for time, caught_up in zip(times, self.caught_up, strict=True) if not caught_up])
        return min(behind, max(min(times), self.aged))

    @cached_property
    def slowest(self) -> int:
        """The place of the origin that the horizon waits for."""
        first = min(range(len(self.times)), key=self.times.__getitem__)
        if self.times[first] == _UNHEARD:
            return first
        behind = [place for place, caught_up in enumerate(self.caught_up) if not caught_up]
        slowest = min(behind, key=self.times.__getitem__, default=first)
        return slowest if self.times[slowest] == self.horizon else first

    @cached_property
    def newest(self) -> int:
        return max(self.times)

    @cached_property
    def settled(self) -> bool:
        """Whether all origins are known and have processed all records that there were."""
        return all(self.caught_up) and min(self.times) != _UNHEARD


class WaitedFor(NamedTuple):
    """The origin that holds the horizon, and what it has announced."""

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
        self._history: deque[tuple[int, int]] = deque()
        """When newer times were announced, by the wall clock, and these times; both ascend."""
        self._newest = -1
        """The last of them, or one that has aged."""

    def waited_for(self, unread: Unread = lambda id: ()) -> WaitedFor:
        """The origin that the horizon waits for; among several that have caught up, one with unread records."""
        known = self.known
        place = known.slowest
        if known.settled:
            with_records = [
                number for number, id in enumerate(self.ids) if known.times[number] < known.newest and unread(id)
            ]
            place = min(with_records, key=known.times.__getitem__, default=place)
        time = known.times[place]
        return WaitedFor(self.ids[place], None if time == _UNHEARD else time, known.caught_up[place])

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
        self._history.clear()
        self._newest = known.aged

    def forget(self, *, before: int) -> None:
        """After a commit at this offset: there will be no rollback behind it."""
        gone = bisect_left(self._marks, before, key=itemgetter(0))
        del self._marks[:gone]
        self._heard -= gone

    def age(self, now: int, patience: int, all_read: AllRead) -> None:
        """Origins that have caught up, and have nothing to read, are not waited for longer than this."""
        known, history = self.known, self._history
        if known.newest > self._newest:
            self._newest = known.newest
            history.append((now, self._newest))
        while history and history[0][0] <= now - patience:
            since, newest = history[0]
            silent = [id for id, time in zip(self.ids, known.times, strict=True) if time < newest]
            if known.settled and newest > known.horizon and not all_read(silent, since + patience):
                return
            history.popleft()
            self.known = known = replace(known, aged=max(known.aged, newest))

    def _after(self, mark: Mark) -> Known:
        times, caught_up = list(self.known.times), list(self.known.caught_up)
        for origin, time, is_caught_up in mark:
            index = self._index.get(origin)
            if index is not None:
                times[index], caught_up[index] = time, is_caught_up
        lenient = self.known.lenient and _UNHEARD in times
        return replace(self.known, times=tuple(times), caught_up=tuple(caught_up), lenient=lenient)


# -- in the metadata of a position


def packed_origins(origins: Origins) -> dict[str, Any] | None:
    """Each origin takes one to ten bytes. With thousands of them, times are rounded down, or left out."""
    known = origins.known
    if known.lenient:
        return None
    newest = max(0, known.newest)
    unit = 1
    while True:
        packed = {
            str(number): base64.b85encode(b"".join(_entries(list(of_one), newest, unit))).decode()
            for number, of_one in groupby(zip(origins.ids, known.times, known.caught_up, strict=True), _subtopology)
        }
        if sum(map(len, packed.values())) <= _MOST_PACKED:
            return {"newest": newest, "unit": unit, "of": packed}
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


def waited_for(packed: dict[str, Any]) -> WaitedFor:
    """The slowest origin, for those who see only the position."""
    ids = list(_unpacked(packed))
    return Origins(ids, recalled(ids, packed, older=False)).waited_for()


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
