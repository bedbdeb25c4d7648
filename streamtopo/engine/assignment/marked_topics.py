"""The repartition topics in which tasks announce their time, and the tasks that write them: their origins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamtopo.engine.plan import Plan
from streamtopo.engine.task.options import TaskId
from streamtopo.topology import Topology
from streamtopo.topology.nodes import ProcessorNode, SinkNode, Subtopology
from streamtopo.topology.operator import Timing


def marked_topics(topology: Topology, plan: Plan) -> Mapping[str, Sequence[TaskId]]:
    """By the name in the log. Topics that only one task writes need no marks, nor those whose readers have no clock."""
    writers: dict[str, list[TaskId]] = {}
    for subtopology, tasks in zip(plan.subtopologies, plan.tasks, strict=True):
        for topic in repartitions_of(topology, subtopology):
            writers.setdefault(topic, []).extend(TaskId(subtopology.number, partition) for partition in range(tasks))
    timed = _timed(topology)
    return {topology.topic_of(topic): ids for topic, ids in writers.items() if topic in timed and len(ids) > 1}


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
            for source in part.sources
            for topic in source.topics
            if topic in topology.repartitions
        }
        if found == timed:
            return timed
        timed = found


def _has_clock(node: object) -> bool:
    return isinstance(node, ProcessorNode) and node.operator.timing is not Timing.UNUSED
