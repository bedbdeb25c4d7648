"""Time behind repartition topics, with records from the future, and with tasks that move on when no records come."""

from __future__ import annotations

from random import Random

import pytest

from streamtopo.testing import Cluster, Faults, seeds
from tests.time.event_time import END, PROGRAMS, WAYS, Event, events, last_events, outcome, topology_of
from tests.time.test_event_time import others, send

PARTITIONS = 3
CLOSING = ("on close", "suppressed", "sessions on close", "outer join")
DAY = 86_400_000


def inputs(name: str, random: Random) -> tuple[list[Event], list[Event]]:
    way = random.choice(WAYS)
    return events(random, "in", PARTITIONS, way), others(name, random, PARTITIONS, way)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("name", CLOSING)
def test_records_from_the_future_close_nothing(name: str, seed: int) -> None:
    random = Random(f"{name} {seed}")
    ours, theirs = inputs(name, random)
    with Cluster(topology_of(name, random), partitions=PARTITIONS, seed=seed, max_ahead="10m") as cluster:
        send(cluster, [event._replace(time=20_000 * DAY + event.time) for event in random.sample(ours, 5)])
        send(cluster, [*ours, *theirs])
        cluster.run()
        for time in (END, 2 * END):
            send(cluster, last_events(sorted({event.topic for event in [*ours, *theirs]}), PARTITIONS, time))
            cluster.run()
            for _ in range(6):  # each topic on the way may wait once more
                cluster.advance(wall_clock_ms=1000)
        assert cluster.dropped == {}
        assert outcome(name, cluster.read("out")) == PROGRAMS[name].expected(ours, theirs)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("name", CLOSING)
def test_idle_tasks_close_all_that_is_open(name: str, seed: int) -> None:
    """No worker is away for as long as tasks wait, so what is in time stays in time."""
    random = Random(f"{name} {seed}")
    ours, theirs = inputs(name, random)
    topology, faults = topology_of(name, random), Faults(longest="1h")
    with Cluster(topology, partitions=PARTITIONS, seed=seed, faults=faults, idle_advance="2d") as cluster:
        send(cluster, [*ours, *theirs])
        cluster.run()
        for _ in range(3):
            cluster.advance(wall_clock_ms=3 * DAY)
        assert cluster.dropped == {}
        assert outcome(name, cluster.read("out")) == PROGRAMS[name].expected(ours, theirs)
