"""The progress of a task: positions in the inputs, stream time, and the clocks and schedules of its operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streamtopo.engine.program.punctuation import Punctuations
from streamtopo.engine.task import metadata
from streamtopo.engine.task.clocks import Clocks, latest_of, time_of
from streamtopo.engine.task.options import TaskId, TaskOptions
from streamtopo.engine.task.origins import Known, Origins, recalled
from streamtopo.records import Position, TopicPartition
from streamtopo.topology.clocks import Bound, OperatorClock
from streamtopo.windows import FOREVER


@dataclass(slots=True)
class Place:
    """The progress of a task in one partition that it reads."""

    offset: int
    time: int = -1
    """The largest timestamp so far, of the rows that clocks follow."""
    origins: Origins | None = None
    """For a repartition topic that several tasks write."""
    left_out: list[tuple[int, str]] = field(default_factory=list)
    """Offset and reason of each record that was left out when it was read, until a commit passes it."""

    def move(self, offset: int, time: int = -1) -> None:
        self.offset, self.time = offset, max(self.time, time)
        if self.origins is not None:
            self.origins.hear(before=offset)

    def snapshot(self) -> PlaceSnapshot:
        return PlaceSnapshot(self.offset, self.time, None if self.origins is None else self.origins.known)

    def restore(self, known: PlaceSnapshot) -> None:
        self.offset, self.time, heard = known
        if self.origins is not None and heard is not None:
            self.origins.go_back(heard, self.offset)


class PlaceSnapshot(NamedTuple):
    offset: int
    time: int
    origins: Known | None


class ProgressSnapshot(NamedTuple):
    """Progress at one moment. It never changes, so any thread may read it."""

    time: int
    seen: int
    clocks: Mapping[str, int]
    places: Mapping[TopicPartition, PlaceSnapshot]
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

    def __init__(self, options: TaskOptions, bound: Bound) -> None:
        self.stream_time = OperatorClock(bound=bound, led=True)
        self.clocks = Clocks(bound)
        self.places: dict[TopicPartition, Place] = {}
        self.punctuations = Punctuations(options.wall_clock)
        self.dropped = Counter[str]()
        """The number of rows that operators dropped, by reason."""
        self.left_out = Counter[str]()
        """The number of records that were left out when they were read, by reason. A rollback does not undo this, as
        they are not read again."""
        self._now = options.steady_clock
        self._moved_at = self._now()
        self.committed = self.written = self._marked = self.snapshot()

    # -- positions in the log

    def open(self, partition: TopicPartition, position: Position, origins: Sequence[TaskId] = ()) -> Place:
        """Start at this position. Several positions may remember the same time: the latest counts.

        `origins` are the tasks that write this partition, if what they write may be out of order.
        """
        place = self.places[partition] = Place(position.offset)
        known = metadata.read(position.metadata)
        if origins:
            older = bool(known) and "origins" not in known
            place.origins = Origins(origins, recalled(origins, known.get("origins"), older=older))
        if known:
            place.time = known["partition"]
            self.stream_time.reach(known["time"])
            self.stream_time.seen = max(self.stream_time.seen, known.get("seen", -1))
            self.clocks.recall(known.get("clocks", {}))
            self.punctuations.recall(known["due"])
        return place

    def positions(self) -> dict[TopicPartition, Position]:
        memory = {
            "time": self.time,
            "clocks": self.clocks.times(),
            "due": self.punctuations.timetable("stream_time"),
        }
        if self.stream_time.seen > self.time:
            memory["seen"] = self.stream_time.seen
        return {
            partition: Position(place.offset, metadata.written({"partition": place.time, **memory}, place.origins))
            for partition, place in self.places.items()
        }

    # -- stream time

    @property
    def time(self) -> int:
        """Stream time of the task."""
        return self.stream_time.time

    def moved(self) -> None:
        """Stream time has moved on, or could have."""
        self._moved_at = self._now()

    def idle_time(self, patience: int) -> int | None:
        """The stream time to move to, if there were no records for this long: it moves on by what has passed."""
        waited = int(self._now() - self._moved_at)
        if any(not one.known.settled for one in self.origins()):
            return None
        return min(self.time + waited, FOREVER) if self.time >= 0 and waited >= patience else None

    def origins(self) -> list[Origins]:
        """What is known of the tasks that write its repartition topics, where several do."""
        return [place.origins for place in self.places.values() if place.origins is not None]

    # -- rows that were dropped

    def all_dropped(self) -> Counter[str]:
        return self.left_out + self.dropped

    def dropped_for_good(self) -> Counter[str]:
        """Without what was not committed: the next worker of the task drops that again."""
        return self.dropped_until(self.committed)

    def dropped_until(self, reached: ProgressSnapshot) -> Counter[str]:
        ahead = Counter(
            reason
            for partition, place in self.places.items()
            for offset, reason in place.left_out
            if offset >= reached.places[partition].offset
        )
        return self.left_out + reached.dropped - ahead

    # -- saved and undone

    def snapshot(self) -> ProgressSnapshot:
        return ProgressSnapshot(
            self.time,
            self.stream_time.seen,
            self.clocks.times(),
            {partition: place.snapshot() for partition, place in self.places.items()},
            self.punctuations.timetable("stream_time", "wall_clock"),
            self.dropped.copy(),
        )

    def write(self) -> None:
        """Rows with the times of now are about to be written to the stores, where other threads can read them."""
        self.written = self.snapshot()

    def commit(self) -> None:
        """What was written is committed, and nothing has been done since."""
        self.committed = self.written
        for partition, place in self.places.items():
            if place.left_out:
                passed = self.committed.places[partition].offset
                place.left_out = [one for one in place.left_out if one[0] >= passed]
            if place.origins is not None:
                place.origins.forget(before=place.offset)

    def remember_schedules(self) -> None:
        """Processors have been opened: after a rollback, their first calls are due when they are due now."""
        self.committed = self.committed._replace(timetable=self.punctuations.timetable("stream_time", "wall_clock"))

    def rollback(self) -> None:
        self._restore(self.committed)

    def mark(self) -> None:
        self._marked = self.snapshot()

    def undo(self) -> None:
        self._restore(self._marked)

    def _restore(self, known: ProgressSnapshot) -> None:
        self.stream_time.time, self.stream_time.seen = known.time, known.seen
        self.clocks.restore(known.clocks)
        self.dropped = known.dropped.copy()
        for partition, place in known.places.items():
            self.places[partition].restore(place)
        self.punctuations.restart(known.timetable)
