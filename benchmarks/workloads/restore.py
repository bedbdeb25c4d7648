"""How fast is a lost store rebuilt from its changelog, if every record has its own key?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from benchmarks.bare.loop import BATCH
from benchmarks.bare.numbers import NUMBER
from benchmarks.data import PARTITIONS, START, Row, create, fill, unique_users
from benchmarks.engine import restoring
from benchmarks.places import Place
from benchmarks.results import store_rows
from benchmarks.workload import Workload
from benchmarks.workloads.keyed_count import topology
from streamtopo.logs import Log, Topic
from streamtopo.records import TopicPartition

CHANGELOG = topology().changelog_of("counts")


def counts(records: int) -> Iterator[Row]:
    for place, user in enumerate(unique_users(records)):
        yield str(user).encode(), NUMBER.pack(place % 1000), START + place


def prepare(log: Log, records: int) -> None:
    create(log, "events", "counted")
    log.create(Topic(CHANGELOG, PARTITIONS, {"cleanup.policy": "compact"}))
    fill(log, CHANGELOG, counts(records))


def bare(place: Place) -> None:
    for partition in range(PARTITIONS):
        store, changelog, offset = place.open_rows(), TopicPartition(CHANGELOG, partition), 0
        end = place.log.end(changelog)
        while offset < end:
            (keys, values, times, _), _, offset = place.log.read(changelog, offset, BATCH)[1:]
            rows = map(bytes.__add__, map(NUMBER.pack, times), values)  # type: ignore[arg-type]
            named = map(bytes.__add__, repeat(b"counts\0"), keys)  # type: ignore[arg-type]
            store.write(dict(zip(named, rows, strict=True)), {"counts": offset})


workload = Workload(
    "restore",
    "How fast is a store rebuilt from its changelog if every record has its own key?",
    1_000_000,
    prepare,
    restoring(topology, PARTITIONS),
    bare,
    store_rows,
)
