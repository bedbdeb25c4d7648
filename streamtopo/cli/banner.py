"""What a worker says before it begins: who it is, where it reads, and what it has to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamtopo.config import Guarantee
from streamtopo.engine.plan import Plan
from streamtopo.logs import Log
from streamtopo.records import Position, TopicPartition
from streamtopo.redaction import shown_url
from streamtopo.topology import Topology


def banner(topology: Topology, plan: Plan, log: Log, url: str, processes: int, guarantee: Guarantee) -> str:
    group = log.group(topology.application_id)
    lines = {
        "application": topology.application_id,
        "log": shown_url(url),
        "guarantee": guarantee.value.replace("-", " "),
        "reads from": _where(log, plan, group.positions if group else {}),
        "tasks": _tasks(plan) + (f", in {processes} processes" if processes > 1 else ""),
    }
    return "\n".join(f"{name:<12} {said}" for name, said in lines.items())


def _where(log: Log, plan: Plan, positions: Mapping[TopicPartition, Position]) -> str:
    if not positions:
        return "the beginning, as nothing is committed yet"
    behind = sum(log.end(partition) - _first(log, positions, partition) for partition in _read(log, plan))
    return f"the committed positions, {behind:,} records before the end"


def _read(log: Log, plan: Plan) -> Iterator[TopicPartition]:
    known = log.topics()
    for topic in {topic for topics in plan.topics for topic in topics}.intersection(known):
        yield from (TopicPartition(topic, number) for number in range(known[topic].partitions))


def _first(log: Log, positions: Mapping[TopicPartition, Position], partition: TopicPartition) -> int:
    """A source that the topology did not have before is read from its start."""
    return positions[partition].offset if partition in positions else log.start(partition)


def _tasks(plan: Plan) -> str:
    return f"{sum(plan.tasks)} ({'; '.join(_parts(plan))})"


def _parts(plan: Plan) -> Iterator[str]:
    for tasks, topics in zip(plan.tasks, plan.topics, strict=True):
        yield f"{tasks} for {', '.join(topics) or 'topics that do not exist yet'}"
