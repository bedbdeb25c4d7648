"""How fast is the same count if no key occurs twice, so that no cache helps?"""

from __future__ import annotations

from benchmarks.data import create, events, fill, unique_users
from benchmarks.engine import processing
from benchmarks.results import last_values
from benchmarks.workload import Workload
from benchmarks.workloads.keyed_count import bare, topology
from streamtopo.logs import Log


def prepare(log: Log, records: int) -> None:
    create(log, "events", "counted")
    fill(log, "events", events(unique_users(records)))


workload = Workload(
    "unique-keys",
    "How fast is the keyed count if all keys are unique, so that the record cache does not help?",
    300_000,
    prepare,
    processing(topology),
    bare,
    last_values("counted"),
)
