"""What a worker prints when it starts: its application, where it starts to read, and its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamtopo.cli.shared.tables import counted
from streamtopo.engine.plan import Plan
from streamtopo.engine.topics.topics import Topics
from streamtopo.logs import Log
from streamtopo.logs.opening import shown_log
from streamtopo.records import Position, TopicPartition
from streamtopo.settings.config import Guarantee
from streamtopo.topology import Topology


def banner(topology: Topology, topics: Topics, log: Log, url: str, processes: int, guarantee: Guarantee) -> str:
    group, plan = log.group(topology.application_id), topics.plan
    lines = {
        "application": topology.application_id,
        "log": shown_log(url),
        "guarantee": guarantee.value.replace("-", " "),
        **({"new topics": _created(topics)} if topics.created else {}),
        "reads from": _start_position(log, plan, group.positions if group else {}),
        "tasks": _tasks(plan) + (f", in {processes} processes" if processes > 1 else ""),
    }
    return "\n".join(f"{name:<12} {text}" for name, text in lines.items())


def _created(topics: Topics) -> str:
    return ", ".join(f"{name} ({counted(number, 'partition')})" for name, number in topics.created.items())


def _start_position(log: Log, plan: Plan, positions: Mapping[TopicPartition, Position]) -> str:
    if not positions:
        return "the beginning, because nothing is committed yet"
    remaining = sum(
        log.end(partition) - _position_of(log, positions, partition) for partition in _source_partitions(log, plan)
    )
    return f"the committed positions, {counted(remaining, 'record')} before the end"


def _source_partitions(log: Log, plan: Plan) -> Iterator[TopicPartition]:
    known = log.topics()
    for topic in {topic for topics in plan.topics for topic in topics}.intersection(known):
        yield from (TopicPartition(topic, number) for number in range(known[topic].partitions))


def _position_of(log: Log, positions: Mapping[TopicPartition, Position], partition: TopicPartition) -> int:
    """Return the committed position. A source that is new in the topology is read from its start."""
    return positions[partition].offset if partition in positions else log.start(partition)


def _tasks(plan: Plan) -> str:
    return f"{sum(plan.tasks)} ({'; '.join(_task_groups(plan))})"


def _task_groups(plan: Plan) -> Iterator[str]:
    for tasks, topics in zip(plan.tasks, plan.topics, strict=True):
        yield f"{tasks} for {', '.join(topics) or 'topics that do not exist yet'}"
