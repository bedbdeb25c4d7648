"""How much memory does a worker use if its state is larger than its budget?"""

from __future__ import annotations

import time
from typing import NamedTuple

from benchmarks.experiment import Experiment, Observed
from benchmarks.places import Site
from benchmarks.processes import BrokenRunError, in_a_process, most_memory, until, worker
from benchmarks.results import Results
from benchmarks.watching import consumed, opened
from benchmarks.workloads import keyed_count, unique_keys
from streamtopo.records import TopicPartition

BUDGET = "256MB"

topology = keyed_count.topology()


class Worked(NamedTuple):
    megabytes: float
    """The most memory that it used."""
    seconds: float


def engine(site: Site, records: int) -> Observed:
    in_a_process(fill, site, records)
    worked = work_off(site, f"{__name__}:topology", topology.application_id)
    with opened(site) as log:
        rows = sum(log.end(TopicPartition("counted", number)) for number in range(log.topics()["counted"].partitions))
    if rows != records:
        raise BrokenRunError(f"there are {rows} counts for {records} keys")
    return Observed({"MB at most": worked.megabytes, "keys/s": records / worked.seconds}, Results(rows, ""))


def fill(site: Site, records: int) -> None:
    with opened(site) as log:
        unique_keys.prepare(log, records)


def work_off(site: Site, app: str, application_id: str) -> Worked:
    """Process all events with a worker of this app."""
    started = time.monotonic()
    with opened(site) as log, worker(app, site, "--memory", BUDGET) as running:
        until(lambda: consumed(log, [application_id], ["events"]), "the end of the count", running.check)
        return Worked(most_memory(running.pid), time.monotonic() - started)


experiment = Experiment(
    "memory",
    f"How much memory does a worker use that counts more keys than fit into its budget of {BUDGET}?",
    5_000_000,
    {"engine": engine},
)
