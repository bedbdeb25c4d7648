"""The repartition topics in which tasks announce their time, and the tasks that write them: their origins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamtopo.engine.plan import Plan
from streamtopo.engine.task.options import TaskId
from streamtopo.topology import Topology
from streamtopo.topology.nodes import ProcessorNode, SinkNode, Subtopology
from streamtopo.topology.operator import Timing


class MarkedTopics:
    """Those of one plan."""

    def __init__(self, topology: Topology, plan: Plan, *, waiting: bool) -> None:
        self._topology = topology
        self._tasks = dict(zip([part.number for part in plan.subtopologies], plan.tasks, strict=True))
        self.origins = marked_topics(topology, plan, waiting=waiting)
        """The tasks that write each topic, by its name in the log."""
        self.subtopologies = frozenset(id.subtopology for ids in self.origins.values() for id in ids)
        """Those of all these tasks."""
        self._before: dict[int, set[int]] = {}

    def different(self, other: MarkedTopics) -> set[str]:
        """The topics that have other origins there."""
        topics = self.origins.keys() | other.origins.keys()
        return {topic for topic in topics if self.origins.get(topic) != other.origins.get(topic)}

    def before(self, number: int) -> set[int]:
        """The subtopologies that write the repartition topics which one reads, those that write theirs, and so on."""
        if number not in self._before:
            self._before[number] = subtopologies_before(self._topology, number)
        return self._before[number]

    def alone(self, number: int) -> bool:
        """Whether a subtopology and those before it have a single task each."""
        return all(self._tasks.get(one, 1) == 1 for one in {number, *self.before(number)})


def marked_topics(topology: Topology, plan: Plan, *, waiting: bool) -> Mapping[str, Sequence[TaskId]]:
    """By the name in the log: the topics whose readers have clocks, and whose rows may come out of order.

    One task writes rows in order, unless it reads such a topic itself. But a reader that also reads another topic does
    not know how far this task has got. That matters only if readers are `waiting` for tasks without new records.
    """
    writers = _writers(topology, plan)
    timed = _timed(topology)
    together = {topic for part in plan.subtopologies if len(_read(part)) > 1 for topic in _read(part)}
    marked = {topic for topic in timed & writers.keys() if len(writers[topic]) > 1 or (waiting and topic in together)}
    while True:
        passing_on = {part.number for part in plan.subtopologies if not marked.isdisjoint(_read(part))}
        more = {topic for topic in timed & writers.keys() if any(id.subtopology in passing_on for id in writers[topic])}
        if more <= marked:
            return {topology.topic_of(topic): writers[topic] for topic in marked}
        marked |= more


def subtopologies_before(topology: Topology, number: int) -> set[int]:
    parts = topology.subtopologies()
    read = {part.number: _read(part) for part in parts}
    found: set[int] = set()
    topics = read[number]
    while more := {part.number for part in parts if topics & repartitions_of(topology, part).keys()} - found:
        found |= more
        topics = topics.union(*(read[one] for one in more))
    return found


def _writers(topology: Topology, plan: Plan) -> dict[str, list[TaskId]]:
    writers: dict[str, list[TaskId]] = {}
    for subtopology, tasks in zip(plan.subtopologies, plan.tasks, strict=True):
        for topic in repartitions_of(topology, subtopology):
            writers.setdefault(topic, []).extend(TaskId(subtopology.number, partition) for partition in range(tasks))
    return writers


def _read(subtopology: Subtopology) -> frozenset[str]:
    return frozenset(topic for source in subtopology.sources for topic in source.topics)


def repartitions_of(topology: Topology, subtopology: Subtopology) -> dict[str, list[SinkNode]]:
    """The repartition topics that a subtopology writes, each with its sinks."""
    found: dict[str, list[SinkNode]] = {}
    for sink in subtopology.sinks:
        if isinstance(sink.topic, str) and sink.topic in topology.repartitions:
            found.setdefault(sink.topic, []).append(sink)
    return found


def _timed(topology: Topology) -> set[str]:
    """The repartition topics whose readers have clocks, or write such a topic themselves."""
    parts = topology.subtopologies()
    timed: set[str] = set()
    while True:
        found = {
            topic
            for part in parts
            if any(map(_has_clock, part.nodes)) or timed & repartitions_of(topology, part).keys()
            for topic in _read(part)
            if topic in topology.repartitions
        }
        if found == timed:
            return timed
        timed = found


def _has_clock(node: object) -> bool:
    return isinstance(node, ProcessorNode) and node.operator.timing is not Timing.UNUSED
