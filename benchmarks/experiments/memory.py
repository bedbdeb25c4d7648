"""How much memory does a worker take whose state is larger than its budget?"""

from __future__ import annotations

import time

from benchmarks.experiment import Experiment, Observed
from benchmarks.places import Site
from benchmarks.processes import BrokenRunError, in_a_process, most_memory, until, worker
from benchmarks.results import Results
from benchmarks.watching import consumed, opened
from benchmarks.workloads import keyed_count, unique_keys
from streamtopo.records import TopicPartition

BUDGET = "256MB"

topology = keyed_count.topology()


def engine(site: Site, records: int) -> Observed:
    in_a_process(fill, site, records)
    started = time.monotonic()
    with opened(site) as log, worker("benchmarks.experiments.memory:topology", site, "--memory", BUDGET) as running:
        until(lambda: consumed(log, [topology.application_id], ["events"]), "the end of the count", running.check)
        seconds = time.monotonic() - started
        measures = {"MB at most": most_memory(running.pid), "keys/s": records / seconds}
        rows = sum(log.end(TopicPartition("counted", number)) for number in range(log.topics()["counted"].partitions))
    if rows != records:
        raise BrokenRunError(f"{rows} counts came of {records} keys")
    return Observed(measures, Results(rows, ""))


def fill(site: Site, records: int) -> None:
    with opened(site) as log:
        unique_keys.prepare(log, records)


experiment = Experiment(
    "memory",
    f"How much memory does a worker take that counts more keys than fit into its budget of {BUDGET}?",
    5_000_000,
    {"engine": engine},
)
