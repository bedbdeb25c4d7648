"""Random faults of workers and of the broker, again and again: readers of committed records see each count once.

STREAMTOPO_LONG=1 runs them. STREAMTOPO_SEED chooses other faults, STREAMTOPO_RUNS how often quiet runs are repeated.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamtopo.broker import Cluster
from streamtopo.logs.kafka import KafkaLog
from tests.kafka.brokers import emptied
from tests.kafka.brokers import running as running_broker
from tests.kafka.lives import (
    Workers,
    committed,
    exact,
    feed,
    inputs,
    members,
    outputs,
    prepare,
    total,
    until,
    workers,
)
from tests.kafka.test_crashes import SOON, end_and_start
from tests.long import long

pytestmark = [pytest.mark.kafka, long]
SEED = int(os.environ.get("STREAMTOPO_SEED", "1"))
RUNS = int(os.environ.get("STREAMTOPO_RUNS", "20"))
PIECE = 10_000
FAULTS = 50


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A broker of this file only, as it is killed."""
    with running_broker() as made:
        yield made


@pytest.fixture
def kafka(cluster: Cluster) -> str:
    return f"kafka://{cluster.address}"


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    log = emptied(kafka)
    prepare(log)
    yield log
    log.close()


class Chaos:
    """One fault after the other, chosen by the seed, among three workers."""

    def __init__(self, rng: random.Random, running: Workers, cluster: Cluster, cache: str) -> None:
        self.rng = rng
        self.running = running
        self.cluster = cluster
        self.cache = cache
        self.asleep: list[int] = []

    def start(self) -> None:
        self.running.start("--cache", self.cache)

    def strike(self, log: KafkaLog) -> None:
        time.sleep(self.rng.random())
        fault: Callable[[KafkaLog], None] = self.rng.choice([self.kill, self.stop, self.end, self.add, self.kill])
        fault(log)

    def kill(self, log: KafkaLog) -> None:
        self.running.kill(self.rng.choice(self.running.running))
        self.start()

    def stop(self, log: KafkaLog) -> None:
        """For longer than the group waits for it, so that others take its tasks before it wakes."""
        process = self.rng.choice(self.running.running)
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.choice([0.5, 3.0]))
        process.send_signal(signal.SIGCONT)

    def end(self, log: KafkaLog) -> None:
        code = self.running.leave(self.rng.choice(self.running.running))
        assert code in (0, -signal.SIGTERM), self.running.said()  # the signal itself, if it was still importing
        self.start()

    def add(self, log: KafkaLog) -> None:
        if len(self.running.running) < 4:
            self.start()
        else:
            self.end(log)

    def break_broker(self, number: int) -> None:
        """SIGKILL and a new start, or SIGSTOP for some seconds."""
        if number == signal.SIGKILL:
            end_and_start(self.cluster, number, self.running)
            return
        (broker,) = self.cluster.nodes()
        broker.signal(number)
        time.sleep(3)
        broker.signal(signal.SIGCONT)


def storm(log: KafkaLog, kafka: str, cluster: Cluster, folder: Path, cache: str) -> int:
    """Feed, break something, feed again; returns the number of records."""
    print(f"STREAMTOPO_SEED={SEED}")  # noqa: T201
    with workers(folder, kafka + SOON) as running:
        chaos = Chaos(random.Random(SEED), running, cluster, cache)
        for _ in range(3):
            chaos.start()
        for number in range(FAULTS):
            feed(log, range(number * PIECE, (number + 1) * PIECE))
            chaos.strike(log)
            if number % 10 == 4:
                time.sleep(3)  # until then one that was killed counts as a member
                until(lambda: members(log) == len(running.running), running)  # a worker that starts needs a broker
                chaos.break_broker(chaos.rng.choice([signal.SIGKILL, signal.SIGSTOP]))
        records = FAULTS * PIECE
        assert inputs(log) == records
        until(lambda: committed(log) == records and members(log) == len(running.running), running)
        until(lambda: settled(log, records), running)
        assert set(running.stop()) == {0}, running.said()
    return records


def settled(log: KafkaLog, records: int) -> bool:
    """Each key has got its last count."""
    last = {key: counted[-1] for key, counted in exact(records).items()}
    return {key: max(counted) for key, counted in outputs(log).items()} == last


def test_each_update_comes_out_once_whatever_breaks(
    log: KafkaLog, kafka: str, cluster: Cluster, tmp_path: Path
) -> None:
    records = storm(log, kafka, cluster, tmp_path, cache="0")
    assert outputs(log) == exact(records)


def test_with_the_record_cache_the_last_counts_are_right_whatever_breaks(
    log: KafkaLog, kafka: str, cluster: Cluster, tmp_path: Path
) -> None:
    records = storm(log, kafka, cluster, tmp_path, cache="10MB")
    assert settled(log, records)
    assert all(counts == sorted(set(counts)) for counts in outputs(log).values())


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("cache", ["0", "10MB"])
def test_runs_in_which_nothing_breaks_are_exact(
    kafka: str, tmp_path_factory: pytest.TempPathFactory, guarantee: str, cache: str
) -> None:
    for run in range(RUNS):
        log = emptied(kafka)
        prepare(log)
        feed(log, range(PIECE))
        with workers(tmp_path_factory.mktemp("run"), kafka) as running:
            running.start("--cache", cache, "--guarantee", guarantee)
            feed(log, range(PIECE, 2 * PIECE))
            until(lambda log=log: settled(log, 2 * PIECE), running)  # type: ignore[misc]
            assert running.stop() == [0], running.said()
        assert inputs(log) == 2 * PIECE
        assert settled(log, 2 * PIECE), f"run {run}"
        assert total(log) == 2 * PIECE or cache != "0", f"run {run}"
        log.close()
