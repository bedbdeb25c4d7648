"""How long after the end of a window do its results come, if it closes behind a repartition topic?"""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial

import orjson

from benchmarks.data import PARTITIONS, START, create
from benchmarks.experiment import Experiment, Observed, Side, percentile
from benchmarks.places import Site
from benchmarks.processes import BrokenRunError, processes, until, without_collections, worker
from benchmarks.results import all_records
from benchmarks.watching import arriving, left, opened, shares
from streamtopo import StreamsBuilder, Topology, Windows
from streamtopo.logs.opening import open_log
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition

USERS = 50
"""Each has a record in each window: they come in turn, one every millisecond."""
WINDOW = 500
WARM_UP = 4
"""Windows before the measured ones."""
TAIL = WINDOW // 2
"""Milliseconds in which records come that close the last window."""


def counts(application: str, *, repartitioned: bool) -> Topology:
    builder = StreamsBuilder(application)
    users = builder.stream("events", key=str, value=str)
    if repartitioned:
        users = users.select_key(lambda _, user: user, key=str)
    windows = users.group_by_key().windowed_by(Windows.tumbling(f"{WINDOW}ms"), emit="on_close")
    rows = windows.count(name="counts").to_stream()
    rows.map(lambda window, count: (window.key, [window.end, count]), key=str, value=list).to("closed")
    return builder.build()


repartitioned = counts("closing", repartitioned=True)
direct = counts("closing", repartitioned=False)


def produce(url: str, windows: int, partitions: int) -> int:
    """Append each record at its time; return the time of the first one. With 0 partitions each user has its own."""
    count, began, written = windows * WINDOW + TAIL, time.monotonic_ns(), 0
    without_collections()
    with closing(open_log(url)) as log:
        while written < count:
            due = min(count, (time.monotonic_ns() - began) // 1_000_000 + 1)
            parts: dict[int, list[int]] = {}
            for place in range(written, due):
                user = b"%d" % (place % USERS)
                number = place % partitions if partitions else partition_of(user, PARTITIONS, 0)
                parts.setdefault(number, []).append(place)
            for number, places in parts.items():
                users: list[bytes | None] = [b"%d" % (place % USERS) for place in places]
                columns = Columns(users, users, [START + place for place in places])
                log.append(TopicPartition("events", number), columns)
            written = due
            time.sleep(max(0.0, (began - time.monotonic_ns()) / 1e9 + written / 1000))
    return began


def read(url: str, count: int) -> list[tuple[int, int]]:
    """Return the end of each window, in milliseconds after the first record, and when the result arrived."""
    arrived: list[tuple[int, int]] = []
    without_collections()
    with closing(arriving(url, "closed", PARTITIONS)) as batches:
        while len(arrived) < count:
            values, now = next(batches).columns.values, time.monotonic_ns()
            arrived += [(orjson.loads(value or b"")[0] - START, now) for value in values]
    return arrived


def observe(app: str, partitions: int, site: Site, records: int) -> Observed:
    """Run with this many busy partitions; 0: the partition of a record is that of its user."""
    windows = WARM_UP + max(1, records // WINDOW)
    reads = PARTITIONS if app == "direct" else 2 * PARTITIONS
    with opened(site) as log:
        create(log, "events", "closed")
        with worker(f"benchmarks.experiments.closing:{app}", site) as running, processes(2) as pool:
            until(lambda: shares(log, "closing") == [reads], "its tasks", running.check)
            reading = pool.submit(read, site.url, windows * USERS)
            until(lambda: shares(log, "reading") == [PARTITIONS], "a reader", running.check)
            producing = pool.submit(produce, site.url, windows, partitions)
            began = producing.result()
            until(reading.done, "the last result", running.check)
    waits = [(at - began) / 1e6 - end for end, at in reading.result() if end > WARM_UP * WINDOW]
    if len(waits) != (windows - WARM_UP) * USERS:
        raise BrokenRunError("not every result came exactly once")
    measures = {"p50 ms": percentile(waits, 50), "p99 ms": percentile(waits, 99), "longest ms": max(waits)}
    return Observed(measures, left(site, all_records("closed")))


SIDES: dict[str, Side] = {
    "no repartition topic": partial(observe, "direct", 0),
    "all partitions busy": partial(observe, "repartitioned", PARTITIONS),
    "one silent": partial(observe, "repartitioned", PARTITIONS - 1),
}
QUESTION = "How long after the end of a window do results on close come, behind a repartition topic and without one"
experiment = Experiment("closing", f"{QUESTION}?", 10_000, SIDES)
