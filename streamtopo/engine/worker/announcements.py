"""What the tasks of a worker announce in the repartition topics that they write: how far they have got."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from streamtopo.engine.assignment.marked_topics import repartitions_of
from streamtopo.engine.assignment.tasks import Tasks
from streamtopo.engine.task.horizons import written
from streamtopo.engine.task.inputs import Input
from streamtopo.engine.task.marks import Announcement, mark_columns
from streamtopo.engine.task.task import Task
from streamtopo.records import Columns, TopicPartition
from streamtopo.settings.config import WorkerConfig
from streamtopo.topology import Topology
from streamtopo.topology.nodes import SinkNode

Ends = Mapping[TopicPartition, int]


_FEW = 16
"""This number of marks may be written with each commit. With more of them, a pause follows: a millisecond for each."""


class Announcements:
    def __init__(self, topology: Topology, tasks: Tasks, config: WorkerConfig, now: Callable[[], float]) -> None:
        self._tasks = tasks
        self._now = now
        self._rest = 1 if config.commit_pause else 0  # the Driver never waits
        self._next = 0.0
        self._sinks = {
            (part.number, topology.topic_of(topic)): sinks
            for part in topology.subtopologies()
            for topic, sinks in repartitions_of(topology, part).items()
        }
        self._announced: dict[tuple[Task, str], Announcement] = {}
        self._sent: dict[tuple[Task, str], Announcement] = {}
        """Those of the commit that is under way."""

    @property
    def due(self) -> bool:
        """Whether there is something new to announce."""
        return any(True for _ in self._new())

    def marks(self) -> Iterator[tuple[TopicPartition, Columns]]:
        """One for each partition of each topic, with what is new; they follow all rows of this commit."""
        self._sent = dict(self._new())
        by_topic: dict[str, list[Announcement]] = {}
        for (_, topic), announcement in self._sent.items():
            by_topic.setdefault(topic, []).append(announcement)
        targets = [TopicPartition(topic, n) for topic in by_topic for n in range(self._tasks.partitions(topic))]
        self._next = max(self._next, self._now() + self._rest * (len(targets) - _FEW))
        columns = {topic: mark_columns(mark) for topic, mark in by_topic.items()}
        yield from ((target, columns[target.topic]) for target in targets)

    def committed(self) -> None:
        tasks = set(self._tasks.ready.values())
        known = self._announced | self._sent
        self._announced = {key: announcement for key, announcement in known.items() if key[0] in tasks}
        self._sent = {}

    def _new(self) -> Iterator[tuple[tuple[Task, str], Announcement]]:
        marked = self._tasks.marked.origins
        if not marked or self._now() < self._next:
            return
        ends = self._tasks.member.ends()
        for task in self._tasks.ready.values():
            for topic in marked:
                sinks = self._sinks.get((task.id.subtopology, topic))
                if sinks is None:
                    continue
                before = self._announced.get((task, topic))
                now = self._announcement(task, sinks, ends, -1 if before is None else before.time)
                if before != now:
                    yield (task, topic), now

    def _announcement(self, task: Task, sinks: Sequence[SinkNode], ends: Ends, before: int) -> Announcement:
        """The time never goes back, although horizons may. A task that still has clocks to move has not caught up.

        In a join by foreign key, tasks read each other's marks. Without this, each could be unread news for the other
        for ever, as long as the clock stands still.
        """
        time = max(before, min(_time(task, sink.name) for sink in sinks))
        caught_up = not task.horizons.pending and not any(_held_back(task, sink.name, before) for sink in sinks)
        inputs = [one for sink in sinks for one in _inputs_above(task, sink.name)]
        return Announcement(task.id, time, caught_up and all(self._caught_up(one, ends) for one in inputs))

    def _caught_up(self, one: Input, ends: Ends) -> bool:
        """Whether all records that there are have been processed, and will be all that come from slower tasks."""
        if one.waiting.size or one.poison is not None or one.fetched < ends.get(one.partition, 0):
            return False
        origins = one.place.origins
        return self._tasks.member.knows_end(one.partition) and (origins is None or origins.known.settled)


def _time(task: Task, sink: str) -> int:
    """The latest time of the records above the sink, as far as the horizon; or of the rows written, if they may differ.

    Rows that come later are not older, if those that they are made from are in order. If only rows of windows can come
    that are still open, time goes on with them, even if nothing is written. The same if all tasks before have got on.
    """
    retimed, bound = task.horizons.retimed.get(sink), task.horizons.of(sink)
    if retimed is None:
        latest = max(_seen(task, sink), bound.lead)
    else:
        latest = max(task.progress.clocks.register(written(sink)).value, task.horizons.to_come(retimed))
    return min(latest, bound.horizon)


def _held_back(task: Task, sink: str, announced: int) -> bool:
    """Whether the task itself waits for others, which may have older records."""
    return _seen(task, sink) > max(task.horizons.of(sink).horizon, announced)


def _seen(task: Task, sink: str) -> int:
    return max(one.place.time for one in _inputs_above(task, sink))


def _inputs_above(task: Task, sink: str) -> list[Input]:
    above = task.horizons.above[sink]
    return [one for one in task.inputs.values() if one.source.name in above]
