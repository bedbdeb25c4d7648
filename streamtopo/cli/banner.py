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
        "reads from": _where(log, group.positions if group else {}),
        "tasks": _tasks(plan) + (f", in {processes} processes" if processes > 1 else ""),
    }
    return "\n".join(f"{name:<12} {said}" for name, said in lines.items())


def _where(log: Log, positions: Mapping[TopicPartition, Position]) -> str:
    if not positions:
        return "the beginning, as nothing is committed yet"
    behind = sum(log.end(partition) - position.offset for partition, position in positions.items())
    return f"the committed positions, {behind:,} records before the end"


def _tasks(plan: Plan) -> str:
    return f"{sum(plan.tasks)} ({'; '.join(_parts(plan))})"


def _parts(plan: Plan) -> Iterator[str]:
    for tasks, topics in zip(plan.tasks, plan.topics, strict=True):
        yield f"{tasks} for {', '.join(topics) or 'topics that do not exist yet'}"
