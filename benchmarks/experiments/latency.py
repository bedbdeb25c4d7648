"""How long does a record take from one process, through a map in another, to a third?"""

from __future__ import annotations

import time
from contextlib import closing

import orjson

from benchmarks.bare.loop import BATCH, Output
from benchmarks.data import PARTITIONS, START, by_partition, create, events, repeating_users
from benchmarks.experiment import Experiment, Observed, Side, percentile
from benchmarks.places import Site
from benchmarks.processes import BrokenRunError, processes, until, without_collections, worker
from benchmarks.results import every_record
from benchmarks.watching import arriving, left, opened, shares
from benchmarks.workloads.map_filter import in_cents
from streamtopo import StreamsBuilder
from streamtopo.logs import Outcome
from streamtopo.logs.opening import open_log
from streamtopo.records import Position

RATE = 1000
"""Records per second, one at a time, each at its due time."""
WARM_UP = 2000
"""Records before the measured ones, but at most as many as those."""
builder = StreamsBuilder("latency")
builder.stream("events", key=str, value=dict).map_values(in_cents).to("mapped")
topology = builder.build()


def produce(url: str, count: int) -> int:
    """Append each record at its time, or when the log has taken the earlier ones; return the first one's time."""
    rows = list(events(repeating_users(count)))
    without_collections()
    with closing(open_log(url)) as log:
        began, written = time.monotonic_ns(), 0
        while written < count:
            due = min(count, (time.monotonic_ns() - began) * RATE // 1_000_000_000 + 1)
            for target, columns in by_partition("events", rows[written:due]):
                log.append(target, columns)
            written = due
            time.sleep(max(0.0, (began - time.monotonic_ns()) / 1e9 + written / RATE))
    return began


def read(url: str, count: int) -> list[tuple[int, int]]:
    """Return for each record its number among all produced ones, and when it arrived."""
    arrived: list[tuple[int, int]] = []
    without_collections()
    with closing(arriving(url, "mapped", PARTITIONS)) as batches:
        while len(arrived) < count:
            times, now = next(batches).columns.timestamps, time.monotonic_ns()
            arrived += [(at - START, now) for at in times]
    return arrived


def copy(url: str, count: int) -> None:
    """The least that a worker has to do for this job."""
    newline, dumps = orjson.OPT_APPEND_NEWLINE, orjson.dumps
    without_collections()
    with closing(open_log(url)) as log:
        output, copied = Output(log, "mapped"), 0
        member = log.join("bare", [("events",)])
        for partition in member.assignment():
            member.seek(partition, 0)
        while copied < count:
            batches = member.poll(BATCH, 1.0)
            for batch in batches:
                keys, values, times, _ = batch.columns
                new = [dumps(in_cents(orjson.loads(value)), None, newline)[:-1] for value in values]  # type: ignore[arg-type]
                output.send(member.send, keys, new, times)  # type: ignore[arg-type]
                copied += len(batch.offsets)
            if batches:
                committed = member.commit({batch.source: Position(batch.next_offset) for batch in batches})
                assert committed.outcome is Outcome.DONE


def engine(site: Site, records: int) -> Observed:
    create_topics(site)
    with worker("benchmarks.experiments.latency", site) as running:
        with opened(site) as log:
            until(lambda: shares(log, "latency") == [PARTITIONS], "its tasks", running.check)
        return observe(site, records)


def bare(site: Site, records: int) -> Observed:
    create_topics(site)
    with processes(1) as pool:
        copying = pool.submit(copy, site.url, min(WARM_UP, records) + records)
        observed = observe(site, records)
        copying.result()
    return observed


def create_topics(site: Site) -> None:
    with opened(site) as log:
        create(log, "events", "mapped")


def observe(site: Site, records: int) -> Observed:
    warm_up = min(WARM_UP, records)
    count = warm_up + records
    with processes(2) as pool:
        reading, producing = pool.submit(read, site.url, count), pool.submit(produce, site.url, count)
        arrived, began = reading.result(), producing.result()
    if sorted(place for place, _ in arrived) != list(range(count)):
        raise BrokenRunError("not every record arrived exactly once")
    waits = [(at - began) / 1e6 - place * 1000 / RATE for place, at in arrived if place >= warm_up]
    measures = {"p50 ms": percentile(waits, 50), "p99 ms": percentile(waits, 99), "longest ms": max(waits)}
    return Observed(measures, left(site, every_record("mapped")))


def synchronous(mode: str, side: Side) -> Side:
    def run(site: Site, records: int) -> Observed:
        return side(site._replace(url=f"{site.url.partition('?')[0]}?synchronous={mode}"), records)

    return run


experiment = Experiment(
    "latency",
    f"How long does a record take, at {RATE:,} per second, through a map in another process to a reader in a third?",
    10_000,
    {
        f"{name}, {mode}": synchronous(mode, side)
        for mode in ("full", "normal")
        for name, side in (("engine", engine), ("bare loop", bare))
    },
)
