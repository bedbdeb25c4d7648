"""How fast are two streams of JSON events joined, if their records alternate and each has one or two partners?"""

from __future__ import annotations

from itertools import islice

from benchmarks.bare.joins import StreamJoining
from benchmarks.bare.loop import run_bare
from benchmarks.data import create, events, fill, repeating_users
from benchmarks.engine import processing
from benchmarks.places import Place
from benchmarks.results import all_records
from benchmarks.workload import Workload
from streamtopo import StreamsBuilder, Topology
from streamtopo.logs import Log

SIZE = 10_000


def topology() -> Topology:
    builder = StreamsBuilder("stream-join")
    left, right = (builder.stream(side, key=str, value=dict) for side in ("left", "right"))
    joined = left.join(right, lambda one, other: [one["ts"], other["ts"]], within=SIZE, value=list)
    joined.to("joined")
    return builder.build()


def prepare(log: Log, records: int) -> None:
    create(log, "left", "right", "joined")
    rows = list(events(repeating_users(records)))
    for place, side in enumerate(("left", "right")):
        fill(log, side, islice(rows, place, None, 2))


def bare(place: Place) -> None:
    run_bare(place.log, ["left", "right"], StreamJoining(place, SIZE))


workload = Workload(
    "stream-join",
    "How fast are two streams of JSON events joined within 10 s, with alternating records and 10,000 keys?",
    300_000,
    prepare,
    processing(topology),
    bare,
    all_records("joined"),
)
