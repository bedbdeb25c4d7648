"""How does a worker that joins or leaves on Kafka affect records: how many tasks move, and how long do they stop?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial

from benchmarks.data import PARTITIONS, START, Row, create, events, fill, unique_users
from benchmarks.experiment import Experiment, Observed, percentile
from benchmarks.experiments.latency import RATE, produce
from benchmarks.places import Site
from benchmarks.processes import Running, processes, until, without_collections, worker
from benchmarks.results import every_record
from benchmarks.watching import arriving, consumed, left, opened, shares
from streamtopo import StreamsBuilder
from streamtopo.broker import Cluster
from streamtopo.logs import Log

ROWS = 50_000
"""Rows in the stores at the start, 75 bytes each, which a task that moves must restore."""
JOINING, LEAVING = "joining", "leaving"
builder = StreamsBuilder("moving")
events_by_user = builder.stream("events", key=str, value=dict).group_by_key()
events_by_user.reduce(lambda old, new: new, name="newest").to_stream().to("newest")
topology = builder.build()

Arrival = tuple[int, int, int]
"""Partition, number among all produced records, time."""
Owners = dict[int, str]
"""The member that owns each partition."""


def on_a_broker(change: str, protocol: str, site: Site, records: int) -> Observed:
    """Run on a separate broker, with the settings of a development cluster."""
    cluster = Cluster(site.directory / "broker")
    try:
        url = f"kafka://{cluster.up(port=0)}?kafka.group.protocol={protocol}"
        return observe(change, site._replace(url=url), records)
    finally:
        cluster.down()


def observe(change: str, site: Site, records: int) -> Observed:
    """Let a second worker join or leave when a quarter of the records is done."""
    with opened(site) as log, processes(2) as pool, ExitStack() as first, ExitStack() as second:
        create(log, "events", "newest")
        fill(log, "events", earlier())
        staying = first.enter_context(worker(__name__, site, "--cache", "0"))
        if change == LEAVING:
            second.enter_context(elsewhere(site))
        before = owners(log, 2 if change == LEAVING else 1, staying)
        until(partial(consumed, log, ["moving"], ["events"]), "the end of the earlier records", staying.check)
        reading = pool.submit(read, site.url, records)
        until(lambda: shares(log, "reading") == [PARTITIONS], "a reader", staying.check)
        producing = pool.submit(produce, f"{site.url}&kafka.linger.ms=0", records)
        until(lambda: done(log) > ROWS + records // 4, "a quarter of the records", staying.check)
        changed = time.monotonic_ns()
        if change == LEAVING:
            second.close()
        else:
            second.enter_context(elsewhere(site))
        after = owners(log, 1 if change == LEAVING else 2, staying)
        arrived, began = reading.result(), producing.result()
    moved = {partition for partition, owner in after.items() if before[partition] != owner}
    return Observed(measured(arrived, began, changed, moved), left(site, every_record("newest")))


def earlier() -> Iterator[Row]:
    """Yield rows with earlier times than the measured records."""
    return ((key, value, time - ROWS) for key, value, time in events(unique_users(ROWS)))


def elsewhere(site: Site) -> AbstractContextManager[Running]:
    """Run a worker as on another machine, without the stores of the first one."""
    directory = site.directory / "second"
    directory.mkdir()
    return worker(__name__, site._replace(directory=directory), "--cache", "0")


def owners(log: Log, members: int, staying: Running) -> Owners:
    """Return the owners once each member has its share."""
    share = [PARTITIONS // members] * members
    until(lambda: shares(log, "moving") == share, "an even assignment", staying.check)
    owned = log.groups()["moving"].members
    return {partition.partition: member for member, some in owned.items() for partition in some}


def done(log: Log) -> int:
    return sum(position.offset for position in log.groups()["moving"].positions.values())


def read(url: str, count: int) -> list[Arrival]:
    arrived: list[Arrival] = []
    without_collections()
    with closing(arriving(url, "newest", PARTITIONS)) as batches:
        while len(arrived) < count:
            batch, now = next(batches), time.monotonic_ns()
            arrived += [(batch.source.partition, at - START, now) for at in batch.columns.timestamps if at >= START]
    return arrived


def measured(arrived: list[Arrival], began: int, changed: int, moved: set[int]) -> dict[str, float]:
    """A task's pause is the longest time that a record waited for it; the first second is warm-up."""
    longest_before, longest = 0.0, dict.fromkeys(range(PARTITIONS), 0.0)
    for partition, place, at in arrived:
        wait = (at - began) / 1e6 - place * 1000 / RATE
        if at >= changed:
            longest[partition] = max(longest[partition], wait)
        elif place >= RATE:
            longest_before = max(longest_before, wait)
    pauses = {
        "moved": [longest[partition] for partition in moved],
        "kept": [longest[partition] for partition in longest.keys() - moved],
    }
    measures = {"moved": float(len(moved)), "longest before ms": longest_before}
    for name, some in pauses.items():
        measures |= {f"{name} p50 ms": percentile(some, 50), f"{name} longest ms": max(some)}
    return measures


experiment = Experiment(
    "moving",
    "How does a worker that joins or leaves on Kafka affect records: how many tasks move, how long do they stop?",
    10_000,
    {
        f"{change}, {protocol}": partial(on_a_broker, change, protocol)
        for change in (JOINING, LEAVING)
        for protocol in ("consumer", "classic")
    },
    log="kafka:",
)
