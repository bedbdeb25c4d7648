"""How fast is the same count if every update is forwarded and logged, without the record cache?"""

from __future__ import annotations

from benchmarks.bare.counting import CountingEach
from benchmarks.bare.loop import run_bare
from benchmarks.engine import processing
from benchmarks.places import Place
from benchmarks.results import every_record
from benchmarks.workload import Workload
from benchmarks.workloads.keyed_count import prepare, topology
from streamtopo.settings.config import WorkerConfig


def bare(place: Place) -> None:
    run_bare(place.log, ["events"], CountingEach(place, "events", "counted"))


workload = Workload(
    "every-update",
    "How fast is the keyed count if every update is forwarded and logged: record cache off?",
    500_000,
    prepare,
    processing(topology, WorkerConfig(cache=0)),
    bare,
    every_record("counted"),
)
