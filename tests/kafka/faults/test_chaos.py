"""Random faults of workers and of the broker: readers of committed records see each count once.

STREAMTOPO_LONG=1 runs them. STREAMTOPO_SEED chooses other faults, STREAMTOPO_RUNS how often quiet runs are repeated.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from streamtopo.broker import Cluster
from streamtopo.logs.kafka import KafkaLog
from tests.kafka.brokers import emptied
from tests.kafka.workers.lives import (
    PLAIN,
    SOON,
    Workers,
    committed,
    end_and_start,
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
from tests.long import long

pytestmark = [pytest.mark.kafka, long]
SEED = int(os.environ.get("STREAMTOPO_SEED", "1"))
RUNS = int(os.environ.get("STREAMTOPO_RUNS", "20"))
PIECE = 10_000
FAILING = """
import random
from streamtopo import retry

def look(value):
    if random.random() < 0.0005:
        raise ConnectionError("no answer")
    return value

builder.on_error(retry(50, backoff="5ms"))
"""
FAULTS = 50


class Chaos:
    """One fault after another among three workers, chosen by the seed."""

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
        """Pause a worker for longer than its session, so that others take its tasks before it resumes."""
        process = self.rng.choice(self.running.running)
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.choice([0.5, 3.0]))
        process.send_signal(signal.SIGCONT)

    def end(self, log: KafkaLog) -> None:
        code = self.running.leave(self.rng.choice(self.running.running))
        assert code in (0, -signal.SIGTERM), self.running.output()  # the signal itself, if it was still importing
        self.start()

    def add(self, log: KafkaLog) -> None:
        if len(self.running.running) < 4:
            self.start()
        else:
            self.end(log)

    def break_broker(self, number: int) -> None:
        """Kill and restart the broker, or pause it for some seconds."""
        if number == signal.SIGKILL:
            end_and_start(self.cluster, number, self.running)
            return
        (broker,) = self.cluster.nodes()
        broker.signal(number)
        time.sleep(3)
        broker.signal(signal.SIGCONT)


def run_with_faults(log: KafkaLog, kafka: str, cluster: Cluster, folder: Path, cache: str, steps: str = PLAIN) -> int:
    """Send records, cause a fault, send again; return the number of records."""
    print(f"STREAMTOPO_SEED={SEED}")  # noqa: T201
    with workers(folder, kafka + SOON, steps) as running:
        chaos = Chaos(random.Random(SEED), running, cluster, cache)
        for _ in range(3):
            chaos.start()
        for number in range(FAULTS):
            feed(log, range(number * PIECE, (number + 1) * PIECE))
            chaos.strike(log)
            if number % 10 == 4:
                time.sleep(3)  # until then a killed worker counts as a member
                until(lambda: members(log) == len(running.running), running)  # a worker that starts needs a broker
                chaos.break_broker(chaos.rng.choice([signal.SIGKILL, signal.SIGSTOP]))
        records = FAULTS * PIECE
        assert inputs(log) == records
        until(lambda: committed(log) == records and members(log) == len(running.running), running)
        until(lambda: settled(log, records), running)
        assert set(running.stop()) == {0}, running.output()
    return records


def settled(log: KafkaLog, records: int) -> bool:
    """Return whether each key has its last count."""
    last = {key: counted[-1] for key, counted in exact(records).items()}
    return {key: max(counted) for key, counted in outputs(log).items()} == last


@pytest.mark.parametrize("steps", [PLAIN, FAILING], ids=["plain", "failing"])
def test_each_update_is_written_once_after_any_faults(
    log: KafkaLog, kafka: str, cluster: Cluster, tmp_path: Path, steps: str
) -> None:
    """Also if a step fails now and then, and its records are tried again."""
    records = run_with_faults(log, kafka, cluster, tmp_path, cache="0", steps=steps)
    assert outputs(log) == exact(records)


def test_with_the_record_cache_the_last_counts_are_right_after_any_faults(
    log: KafkaLog, kafka: str, cluster: Cluster, tmp_path: Path
) -> None:
    records = run_with_faults(log, kafka, cluster, tmp_path, cache="10MB")
    assert settled(log, records)
    assert all(counts == sorted(set(counts)) for counts in outputs(log).values())


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("cache", ["0", "10MB"])
def test_runs_without_faults_are_exact(
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
            assert running.stop() == [0], running.output()
        assert inputs(log) == 2 * PIECE
        assert settled(log, 2 * PIECE), f"run {run}"
        assert total(log) == 2 * PIECE or cache != "0", f"run {run}"
        log.close()
