"""A record that is in time in its own source partition is in time after repartitions, whatever workers do."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from streamtopo.testing import Cluster, seeds
from tests.time.event_time import (
    LAST,
    PROGRAMS,
    UPDATED_TWICE,
    USERS,
    WAYS,
    Event,
    arrival,
    events,
    keyed_events,
    last_events,
    outcome,
    topology_of,
)


def others(name: str, random: Random, partitions: int, way: str) -> list[Event]:
    if "keyed" in PROGRAMS[name].topics:
        return keyed_events(events(random, "keyed", partitions, way))
    return events(random, "other", partitions, way) if "other" in PROGRAMS[name].topics else []


def send(cluster: Cluster, some: list[Event]) -> None:
    for topic, partition, time, user, at in some:
        key = user if partition is None else None
        cluster.send(topic, [user, time], key=key, timestamp=time, partition=partition, at=at)


def send_rows(cluster: Cluster, name: str, random: Random, way: str) -> None:
    for user in USERS if "names" in PROGRAMS[name].topics else ():
        cluster.send("names", user, key=user, timestamp=0)
    at = 0
    for second in range(10) if "rows" in PROGRAMS[name].topics else ():
        at = max(at, arrival(random, second * 1000, way))
        for user in USERS:
            cluster.send("rows", second, key=user, timestamp=second * 1000, at=at)


@pytest.mark.parametrize("seed", [5081, 6013])
def test_a_task_that_has_still_windows_to_close_has_not_caught_up(seed: int) -> None:
    """It said so between the closing of its first windows and that of those below, and its last rows came late."""
    run("closed three times", seed)


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_in_time_stays_in_time(name: str, seed: int) -> None:
    run(name, seed)


def run(name: str, seed: int) -> None:
    random = Random(f"{name} {seed}")
    partitions, way = random.choice([2, 3, 4, 8] if PROGRAMS[name].several else [1, 2, 3, 4, 8]), random.choice(WAYS)
    ours = events(random, "in", partitions, way) if "in" in PROGRAMS[name].topics else []
    theirs = others(name, random, partitions, way)
    topology, workers, faults = topology_of(name, random), random.choice([1, 2, 3]), random.random() < 0.7
    caches = [0, 500, "10MB"] if name not in UPDATED_TWICE else [0]
    room: dict[str, Any] = {"cache": random.choice(caches), "memory": random.choice([6, 200, "256MB"])}
    with Cluster(topology, workers=workers, partitions=partitions, seed=seed, faults=faults, **room) as cluster:
        send_rows(cluster, name, random, way)
        send(cluster, [*ours, *theirs])
        cluster.run()
        for time in LAST:
            send(cluster, last_events(sorted({event.topic for event in [*ours, *theirs]}), partitions, time))
            cluster.run()
            for _ in range(6):  # each topic on the way may wait once more
                cluster.advance(wall_clock_ms=1000)
        assert cluster.dropped.keys() <= {"answer to an older row"}  # of the last events, which have one key
        assert outcome(name, cluster.read("out")) == PROGRAMS[name].expected(ours, theirs), (way, partitions)
