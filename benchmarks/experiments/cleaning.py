"""Does a busy changelog grow faster than it is cleaned on the embedded log?"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from functools import partial

from benchmarks.experiment import Experiment, Observed
from benchmarks.places import Site
from benchmarks.processes import in_a_process, most_memory, until, worker
from benchmarks.results import last_values
from benchmarks.watching import consumed, left, opened
from benchmarks.workloads import tumbling_count

topology = tumbling_count.topology()


def engine(memory: str, site: Site, records: int) -> Observed:
    """Log every update; rows expire after ten seconds of stream time, and deletions are kept for one second."""
    in_a_process(fill, site, records)
    kept: list[int] = []
    started = time.monotonic()
    options = ("--cache", "0", "--memory", memory, "--keep-deletions", "1s")
    with opened(site) as log, worker(f"{__name__}:topology", site, *options) as running:

        def caught_up() -> bool:
            kept.append(in_changelog(site))
            return consumed(log, [topology.application_id], ["events"])

        until(caught_up, "the end of the count", running.check)
        seconds = time.monotonic() - started
        most = most_memory(running.pid)
    measures = {
        "records/s": records / seconds,
        "in the changelog at most": max(kept),
        "in the changelog at the end": kept[-1],
        "MB at most": most,
    }
    return Observed(measures, left(site, last_values("counted")))


def fill(site: Site, records: int) -> None:
    with opened(site) as log:
        tumbling_count.prepare(log, records)


def in_changelog(site: Site) -> int:
    """Return the number of records stored, which no public call counts."""
    with closing(sqlite3.connect(site.directory / "log" / "log.db")) as connection:
        (records,) = connection.execute(
            "SELECT sum(records) FROM partitions p JOIN topics t ON t.id = p.topic WHERE t.name LIKE '%-changelog'"
        ).fetchone()
    return records or 0


experiment = Experiment(
    "cleaning",
    "Does a busy changelog, in which every record writes a row, outrun its compaction?",
    5_000_000,
    {memory: partial(engine, memory) for memory in ("256MB", "64MB")},
)
