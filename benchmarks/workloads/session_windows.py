"""How fast are JSON events counted by key in sessions that end with a gap of 5 s?"""

from __future__ import annotations

from benchmarks.bare.loop import run_bare
from benchmarks.bare.sessions import SessionCounting
from benchmarks.data import create, events, fill, repeating_users
from benchmarks.engine import processing
from benchmarks.places import Place
from benchmarks.results import live_values
from benchmarks.workload import Workload
from streamtopo import StreamsBuilder, Topology, Windows
from streamtopo.logs import Log

GAP = 5_000


def topology() -> Topology:
    builder = StreamsBuilder("session-windows")
    grouped = builder.stream("events", key=str, value=dict).group_by_key()
    grouped.windowed_by(Windows.session(gap=GAP)).count(name="counts").to_stream().to("counted")
    return builder.build()


def prepare(log: Log, records: int) -> None:
    create(log, "events", "counted")
    fill(log, "events", events(repeating_users(records)))


def bare(place: Place) -> None:
    run_bare(place.log, ["events"], SessionCounting(place, "events", "counted", GAP))


workload = Workload(
    "session-windows",
    "How fast are JSON events counted by key in sessions: gap of 5 s, 10,000 keys, one event of each in 10 s?",
    500_000,
    prepare,
    processing(topology),
    bare,
    live_values("counted"),
)
