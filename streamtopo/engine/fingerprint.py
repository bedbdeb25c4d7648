"""What a topology leaves behind on a log, so that a later version cannot orphan or misread it unnoticed."""

from __future__ import annotations

import orjson

from streamtopo.engine.plan import Plan
from streamtopo.errors import FingerprintError
from streamtopo.topology import Topology

Fingerprint = dict[str, str]
"""A line for each store and internal topic: what must not change. Stateless nodes leave nothing behind."""
_TOPIC = "topic "
_UNFINISHED = {"reset": "begun and not finished; let streamtopo reset end it"}


def note_of(topology: Topology) -> str:
    """The name under which the log keeps it."""
    return f"{topology.application_id}/fingerprint"


def fingerprint(topology: Topology, planned: Plan) -> Fingerprint:
    lines = {f"{_TOPIC}{topic.name}": f"{topic.partitions} partitions" for topic in planned.internal}
    for subtopology, tasks in zip(planned.subtopologies, planned.tasks, strict=True):
        for spec in subtopology.stores if tasks else ():
            lines[f"store {spec.name}"] = (
                f"{spec.kind.value}, key {spec.key.name}, value {spec.value.name}, {tasks} partitions"
            )
    return lines


def compare(text: str | None, now: Fingerprint) -> list[str]:
    """What is new since `text` was kept; raises if something that was left behind is gone or different."""
    before = _lines(text)
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


def topics_of(text: str | None) -> set[str]:
    """The internal topics that were left behind."""
    return {name.removeprefix(_TOPIC) for name in _lines(text) if name.startswith(_TOPIC)}


def unfinished(text: str | None) -> str:
    """What no topology fits: its state and its positions are being taken away."""
    return text_of(_lines(text) | _UNFINISHED)


def _lines(text: str | None) -> Fingerprint:
    return dict(orjson.loads(text)) if text else {}
