"""Passes the partitions of a worker to the assignor of the app, in the form of Kafka's group protocol."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from faust.assignor.client_assignment import ClientAssignment, ClientMetadata
from faust.types import TP, AppT


class _Protocol(NamedTuple):
    assignment: Sequence[tuple[str, list[int]]]
    user_data: bytes


def announce(app: AppT, share: Iterable[TP], partitions: Callable[[str], int]) -> set[TP]:
    """What the worker must read: its share, and all partitions of the changelogs of global tables."""
    actives: dict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(share):
        actives[topic].append(number)
    standbys: dict[str, list[int]] = {}
    tables: Any = app.tables
    for table in tables.values():
        if table.is_global:
            topic = table.changelog_topic.get_topic_name()
            everything = range(partitions(topic))
            mirrored = table.synchronize_all_active_partitions or table.use_partitioner
            standbys[topic] = [number for number in everything if mirrored or number not in actives[topic]]
            actives[topic] = list(everything)
    _pass_on(app, ClientAssignment(actives=dict(actives), standbys=standbys))
    return {TP(topic, number) for topic, numbers in actives.items() for number in numbers}


def _pass_on(app: AppT, assignment: Any) -> None:
    url, changelogs = str(app.conf.canonical_url), app.tables.changelog_topics
    metadata = ClientMetadata(
        assignment=assignment,
        url=url,
        changelog_distribution={url: {t: n for t, n in assignment.actives.items() if t in changelogs}},
        external_topic_distribution={url: {t: n for t, n in assignment.actives.items() if t not in changelogs}},
        topic_groups={},
    )
    assigned = sorted(assignment.kafka_protocol_assignment(app.tables))
    assignor: Any = app.assignor
    assignor.on_assignment(_Protocol(assigned, zlib.compress(metadata.dumps())))
