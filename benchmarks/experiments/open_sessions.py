"""How much memory does a worker use with more open sessions than fit into its budget?"""

from __future__ import annotations

from collections import Counter

from benchmarks.data import create, events, fill, unique_users
from benchmarks.experiment import Experiment, Observed
from benchmarks.experiments.memory import BUDGET, work_off
from benchmarks.places import Site
from benchmarks.processes import BrokenRunError, in_a_process
from benchmarks.results import Results, records_of
from benchmarks.watching import opened
from streamtopo import StreamsBuilder, Topology, Windows

TIMES = 2
"""Events per user: first one of each user, then a second of each, well within the gap."""


def sessions() -> Topology:
    builder = StreamsBuilder("open-sessions")
    grouped = builder.stream("events", key=str, value=dict).group_by_key()
    grouped.windowed_by(Windows.session(gap="1d")).count(name="counts").to_stream().to("counted")
    return builder.build()


topology = sessions()


def engine(site: Site, users: int) -> Observed:
    in_a_process(prepare, site, users)
    worked = work_off(site, f"{__name__}:topology", topology.application_id)
    in_a_process(check, site, users)
    return Observed({"MB at most": worked.megabytes, "records/s": users * TIMES / worked.seconds}, Results(users, ""))


def prepare(site: Site, users: int) -> None:
    with opened(site) as log:
        create(log, "events", "counted")
        fill(log, "events", events(unique_users(users) * TIMES))


def check(site: Site, users: int) -> None:
    """Check that one session of each user is left, with all its events."""
    with opened(site) as log:
        last = {key: value for _partition, key, value, _time in records_of(log, "counted")}
    counts = Counter(last.values())
    del counts[None]
    if list(counts.values()) != [users]:
        raise BrokenRunError(f"sessions of {users} users by their number of events: {dict(counts)}")


experiment = Experiment(
    "open-sessions",
    f"How much memory does a worker use with more open sessions than fit into its budget of {BUDGET}?",
    1_000_000,
    {"engine": engine},
)
