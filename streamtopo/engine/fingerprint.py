"""What a topology leaves behind on a log, so that a later version cannot orphan or misread it unnoticed."""

from __future__ import annotations

import orjson

from streamtopo.engine.plan import Plan
from streamtopo.errors import FingerprintError
from streamtopo.topology import Topology

Fingerprint = dict[str, str]
"""A line for each store and internal topic: what must not change. Stateless nodes leave nothing behind."""


def fingerprint(topology: Topology, planned: Plan) -> Fingerprint:
    lines = {f"topic {topic.name}": f"{topic.partitions} partitions" for topic in planned.internal}
    for subtopology, tasks in zip(planned.subtopologies, planned.tasks, strict=True):
        for spec in subtopology.stores if tasks else ():
            lines[f"store {spec.name}"] = (
                f"{spec.kind.value}, key {spec.key.name}, value {spec.value.name}, {tasks} partitions"
            )
    return lines


def compare(text: str | None, now: Fingerprint) -> list[str]:
    """What is new since `text` was kept; raises if something that was left behind is gone or different."""
    before: Fingerprint = orjson.loads(text) if text else {}
    broken = [
        f"  {name}: {was} -> {now.get(name, 'gone')}" for name, was in sorted(before.items()) if now.get(name) != was
    ]
    if broken:
        raise FingerprintError(
            "the topology no longer fits the state it left behind:\n" + "\n".join(broken) + "\n"
            "go back to the version that wrote it, or start with --accept-changes to leave that state unused"
        )
    return sorted(now.keys() - before.keys()) if text else []


def text_of(now: Fingerprint) -> str:
    return orjson.dumps(now, option=orjson.OPT_SORT_KEYS).decode()
