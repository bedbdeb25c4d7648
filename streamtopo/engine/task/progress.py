"""The progress of a task: positions in the inputs, stream time, and the clocks and schedules of its operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from streamtopo.engine.program.punctuation import Punctuations
from streamtopo.engine.task.clocks import Clocks, latest_of, time_of
from streamtopo.records import Position, TopicPartition
from streamtopo.windows import FOREVER


@dataclass(slots=True)
class Place:
    """The progress of a task in one partition that it reads."""

    offset: int
    time: int = -1
    """The largest timestamp so far, of the rows that clocks follow."""

    def move(self, offset: int, time: int) -> None:
        self.offset, self.time = offset, max(self.time, time)


class ProgressSnapshot(NamedTuple):
    """Progress at one moment. It never changes, so any thread may read it."""

    time: int
    clocks: Mapping[str, int]
    places: Mapping[TopicPartition, tuple[int, int]]
    timetable: dict[str, int]
    dropped: Counter[str]

    def time_of(self, store: str) -> int:
        """The largest time in the keys of the store, or -1."""
        return time_of(store, self.clocks)

    def latest_of(self, store: str) -> int:
        """The same, including rows that are too far ahead of the wall clock."""
        return latest_of(store, self.clocks)


class Progress:
    """What a task remembers besides its stores. It is committed and rolled back together with them."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        self.time = -1
        self.clocks = Clocks()
        self.places: dict[TopicPartition, Place] = {}
        self.punctuations = Punctuations(wall_clock)
        self.dropped = Counter[str]()
        """The number of rows that operators dropped, by reason."""
        self.left_out = Counter[str]()
        """The number of records that were left out when they were read, by reason. A rollback does not undo this, as
        they are not read again."""
        self._wall_clock = wall_clock
        self._moved_at = wall_clock()
        self.committed = self.written = self._marked = self.snapshot()

    # -- positions in the log

    def open(self, partition: TopicPartition, position: Position) -> Place:
        """Start at this position. Several positions may remember the same time: the latest counts."""
        place = self.places[partition] = Place(position.offset)
        if position.metadata:
            known = orjson.loads(position.metadata)
            place.time = known["partition"]
            self.time = max(self.time, known["time"])
            for name, time in clocks_in(position.metadata).items():
                self.clocks[name].time = max(self.clocks[name].time, time)
            self.punctuations.recall(known["due"])
        return place

    def positions(self) -> dict[TopicPartition, Position]:
        memory = {
            "time": self.time,
            "clocks": self.clocks.times(),
            "due": self.punctuations.timetable("stream_time"),
        }
        return {
            partition: Position(place.offset, orjson.dumps({"partition": place.time, **memory}).decode())
            for partition, place in self.places.items()
        }

    # -- stream time

    def moved(self) -> None:
        """Stream time has moved on, or could have."""
        self._moved_at = self._wall_clock()

    def idle_time(self, patience: int) -> int | None:
        """The stream time to move to, if there were no records for this long: it follows the wall clock."""
        waited = self._wall_clock() - self._moved_at
        return min(self.time + waited, FOREVER) if self.time >= 0 and waited >= patience else None

    # -- rows that were dropped

    def all_dropped(self) -> Counter[str]:
        return self.left_out + self.dropped

    def dropped_for_good(self) -> Counter[str]:
        """Without what was not committed: the next worker of the task drops that again."""
        return self.left_out + self.committed.dropped

    # -- saved and undone

    def snapshot(self) -> ProgressSnapshot:
        return ProgressSnapshot(
            self.time,
            self.clocks.times(),
            {partition: (place.offset, place.time) for partition, place in self.places.items()},
            self.punctuations.timetable("stream_time", "wall_clock"),
            self.dropped.copy(),
        )

    def write(self) -> None:
        """Rows with the times of now are about to be written to the stores, where other threads can read them."""
        self.written = self.snapshot()

    def commit(self) -> None:
        """What was written is committed, and nothing has been done since."""
        self.committed = self.written

    def rollback(self) -> None:
        self._restore(self.committed)

    def mark(self) -> None:
        self._marked = self.snapshot()

    def undo(self) -> None:
        self._restore(self._marked)

    def _restore(self, known: ProgressSnapshot) -> None:
        self.time = known.time
        self.clocks.restore(known.clocks)
        self.dropped = known.dropped.copy()
        for partition, (offset, time) in known.places.items():
            self.places[partition].offset, self.places[partition].time = offset, time
        self.punctuations.restart(known.timetable)


def clocks_in(metadata: str) -> dict[str, int]:
    """The times of operators in the metadata of a position."""
    clocks: dict[str, int] = orjson.loads(metadata).get("clocks", {}) if metadata else {}
    return clocks
