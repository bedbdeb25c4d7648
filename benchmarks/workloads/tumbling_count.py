"""How fast are JSON events counted by key in windows of 10 s, if each of 10,000 keys occurs ten times in a window?"""

from __future__ import annotations

from benchmarks.bare.loop import run_bare
from benchmarks.bare.windows import WindowCounting
from benchmarks.data import create, events, fill, repeating_users
from benchmarks.engine import processing
from benchmarks.places import Place
from benchmarks.results import last_values
from benchmarks.workload import Workload
from streamtopo import StreamsBuilder, Topology, Windows
from streamtopo.logs import Log

SIZE = 10_000


def topology() -> Topology:
    builder = StreamsBuilder("tumbling-count")
    grouped = builder.stream("events", key=str, value=dict).group_by_key()
    grouped.windowed_by(Windows.tumbling(SIZE)).count(name="counts").to_stream().to("counted")
    return builder.build()


def prepare(log: Log, records: int) -> None:
    create(log, "events", "counted")
    fill(log, "events", events(repeating_users(records), per_ms=10))


def bare(place: Place) -> None:
    run_bare(place.log, ["events"], WindowCounting(place, "events", "counted", SIZE))


workload = Workload(
    "tumbling-count",
    "How fast are JSON events counted by key in tumbling windows of 10 s: 10,000 keys, 10 events per key and window?",
    1_000_000,
    prepare,
    processing(topology),
    bare,
    last_values("counted"),
)
