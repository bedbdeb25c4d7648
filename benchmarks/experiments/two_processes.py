"""How much faster is word count in two processes than in one?"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

from apps.wordcount import topology
from benchmarks.bare.loop import Share, run_bare
from benchmarks.data import LINE, PARTITIONS, create, fill, fill_at_once, lines
from benchmarks.experiment import Experiment, Observed
from benchmarks.places import Place, Site, rocks_stores
from benchmarks.processes import cpu_seconds, processes, until, worker
from benchmarks.results import last_values
from benchmarks.watching import consumed, left, opened, shares
from benchmarks.workloads.word_count import WordCount
from streamtopo.logs import Log

WARM_UP = 20_000
"""Lines before the measured ones, but at most as many as those."""
REPARTITION = topology.topic_of(next(iter(topology.repartitions)))
_IDLE = 0.001
"""Seconds that a bare loop waits when it has nothing to do."""
_TICK = 0.01
"""Seconds: the kernel's unit of CPU time, so a short run may show none."""


def engine(number: int, site: Site, records: int) -> Observed:
    """Start the worker as a user does."""
    name = topology.application_id
    with opened(site) as log:
        create(log, "sentences", "word-counts")
        fill(log, "sentences", lines(min(WARM_UP, records)))
        done = partial(consumed, log, [name], ["sentences", REPARTITION])
        with worker("apps.wordcount", site, "--processes", str(number)) as running:
            until(lambda: shares(log, name) == [2 * PARTITIONS // number] * number, "all tasks", running.check)
            measures = clocked(log, records, done, running.check)
    return Observed(measures, left(site, last_values("word-counts")))


def bare(number: int, site: Site, records: int) -> Observed:
    stop = site.directory / "stop"
    with opened(site) as log, processes(number) as pool:
        create(log, "sentences", "words", "word-counts")
        fill(log, "sentences", lines(min(WARM_UP, records)))
        loops = [pool.submit(loop, site, stop, one, number) for one in range(number)]
        done = partial(consumed, log, [f"bare-{one}" for one in range(number)], ["sentences", "words"])
        try:
            measures = clocked(log, records, done, lambda: [one.result() for one in loops if one.done()])
        finally:
            stop.touch()
    return Observed(measures, left(site, last_values("word-counts")))


def loop(site: Site, stop: Path, number: int, loops: int) -> None:
    def over() -> bool:
        time.sleep(_IDLE)
        return stop.exists()

    with opened(site) as log:
        place = Place(log, rocks_stores(site.state / str(number)))
        run_bare(log, ["sentences", "words"], WordCount(place), Share(number, loops, over))


def clocked(log: Log, records: int, done: Callable[[], bool], check: Callable[[], object]) -> dict[str, float]:
    """Measure from the moment when processes that have done everything see new records."""
    warm_up = min(WARM_UP, records)
    rows = list(islice(lines(warm_up + records), warm_up, None))
    until(done, "the end of the warm-up", check)
    cpu_before = cpu_seconds()
    fill_at_once(log, "sentences", rows)
    started = time.monotonic()
    until(done, "the end of the count", check)
    seconds, cpu = time.monotonic() - started, cpu_seconds() - cpu_before
    return {"words/s": records * LINE / seconds, "words/s of CPU": records * LINE / max(cpu, _TICK)}


experiment = Experiment(
    "two-processes",
    "How much faster is word count in two processes than in one?",
    300_000,
    {
        f"{name}, {number} process{'es' if number > 1 else ''}": partial(side, number)
        for name, side in (("engine", engine), ("bare loop", bare))
        for number in (1, 2)
    },
)
