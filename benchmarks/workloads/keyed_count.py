"""How fast are JSON events counted by key, if 10,000 keys repeat and the record cache is on?"""

from __future__ import annotations

from benchmarks.bare.counting import Counting
from benchmarks.bare.loop import run_bare
from benchmarks.data import create, events, fill, repeating_users
from benchmarks.engine import processing
from benchmarks.places import Place
from benchmarks.results import last_values
from benchmarks.workload import Workload
from streamtopo import StreamsBuilder, Topology
from streamtopo.logs import Log


def topology() -> Topology:
    builder = StreamsBuilder("keyed-count")
    builder.stream("events", key=str, value=dict).group_by_key().count(name="counts").to_stream().to("counted")
    return builder.build()


def prepare(log: Log, records: int) -> None:
    create(log, "events", "counted")
    fill(log, "events", events(repeating_users(records)))


def bare(place: Place) -> None:
    run_bare(place.log, ["events"], Counting(place, "events", "counted"))


workload = Workload(
    "keyed-count",
    "How fast are JSON events counted by key: 10,000 keys, record cache on?",
    1_000_000,
    prepare,
    processing(topology),
    bare,
    last_values("counted"),
)
