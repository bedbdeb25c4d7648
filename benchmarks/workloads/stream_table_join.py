"""How fast are JSON events joined with the name of their user, from a table of 100,000 rows?"""

from __future__ import annotations

from benchmarks.bare.joins import TableJoining
from benchmarks.bare.loop import run_bare
from benchmarks.data import START, create, events, fill, repeating_users
from benchmarks.engine import processing
from benchmarks.places import Place
from benchmarks.results import every_record
from benchmarks.workload import Workload
from streamtopo import StreamsBuilder, Topology
from streamtopo.logs import Log

USERS = 100_000


def topology() -> Topology:
    builder = StreamsBuilder("stream-table-join")
    names = builder.table("names", key=str, value=str)
    joined = builder.stream("events", key=str, value=dict).join(names, lambda event, name: {**event, "name": name})
    joined.to("joined")
    return builder.build()


def prepare(log: Log, records: int) -> None:
    """Append at most as many rows as events."""
    create(log, "names", "events", "joined")
    users = min(USERS, records)
    named = ((str(user).encode(), f"user {user}".encode()) for user in range(10_000_000, 10_000_000 + users))
    fill(log, "names", ((key, name, START - 1) for key, name in named))
    fill(log, "events", events(repeating_users(records, users)))


def bare(place: Place) -> None:
    joining = TableJoining(place)
    run_bare(place.log, ["names"], joining)
    run_bare(place.log, ["events"], joining)


workload = Workload(
    "stream-table-join",
    "How fast are JSON events joined with a table of 100,000 rows, which is read first?",
    500_000,
    prepare,
    processing(topology),
    bare,
    every_record("joined"),
)
