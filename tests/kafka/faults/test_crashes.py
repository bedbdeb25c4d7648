"""Workers or brokers that are killed or paused: the outputs on the cluster are those of an undisturbed run."""

from __future__ import annotations

import random
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from streamtopo.broker import Cluster
from streamtopo.logs import Topic
from streamtopo.logs.kafka import KafkaLog
from tests.kafka.brokers import configured
from tests.kafka.workers.lives import (
    PARTITIONS,
    PATIENCE,
    SOON,
    committed,
    end_and_start,
    exact,
    feed,
    inputs,
    members,
    outputs,
    stored,
    total,
    until,
    workers,
)
from tests.long import long

pytestmark = pytest.mark.kafka


def done(log: KafkaLog, count: int) -> bool:
    return committed(log) > count


@pytest.mark.parametrize(("kills", "of_broker", "records"), [(2, 1, 2000), pytest.param(30, 5, 10_000, marks=long)])
def test_killed_workers_and_brokers_lose_and_repeat_nothing(
    log: KafkaLog, kafka: str, cluster: Cluster, tmp_path: Path, kills: int, of_broker: int, records: int
) -> None:
    """One of two workers is killed with each part of the input, and a third one joins and leaves."""
    rng = random.Random(1)
    with workers(tmp_path, kafka + SOON) as running:
        for _ in range(2):
            running.start()
        for step in range(kills):
            feed(log, range(step * records, (step + 1) * records))
            until(partial(done, log, step * records), running)
            until(
                lambda: members(log) == len(running.running), running
            )  # a killed worker counts as a member for two seconds
            running.kill(rng.choice(running.running))
            if step % (kills // of_broker) == 1:
                until(lambda: members(log) == len(running.running), running)  # a worker that starts needs a broker
                end_and_start(cluster, signal.SIGKILL, running)
            running.start()
            if len(running.running) < 3:
                running.start()
            else:
                assert running.leave(running.running[0]) == 0, running.output()
        until(lambda: committed(log) == kills * records and members(log) == len(running.running), running)
        until(lambda: total(log) == kills * records, running)
        assert set(running.stop()) == {0}, running.output()
        assert outputs(log) == exact(kills * records), running.output()
    assert inputs(log) == kills * records  # counted with a client that knew the leaders before the broker was killed
    counts = {key: counted[-1] for key, counted in exact(kills * records).items()}
    assert stored(log, tmp_path / ".streamtopo" / "state") == counts
    assert stored(log, tmp_path / "restored") == counts


def test_a_paused_worker_that_resumes_writes_nothing(log: KafkaLog, kafka: str, tmp_path: Path) -> None:
    with workers(tmp_path, kafka + SOON) as running:
        zombie = running.start()
        feed(log, range(2000))
        until(lambda: committed(log) > 0, running)
        feed(log, range(2000, 4000))
        zombie.send_signal(signal.SIGSTOP)
        running.start()
        feed(log, range(4000, 5000))
        until(lambda: total(log) >= 5000, running)
        zombie.send_signal(signal.SIGCONT)
        feed(log, range(5000, 6000))
        until(lambda: total(log) >= 6000, running)
        assert running.stop() == [0, 0], running.output()
        assert outputs(log) == exact(6000), running.output()


@long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_restarted_broker_loses_nothing(
    log: KafkaLog, kafka: str, cluster: Cluster, tmp_path: Path, number: int
) -> None:
    with workers(tmp_path, kafka) as running:
        running.start()
        feed(log, range(5000))
        until(lambda: committed(log) > 0, running)
        end_and_start(cluster, number, running)
        feed(log, range(5000, 6000))
        until(lambda: total(log) >= 6000, running)
        assert running.stop() == [0], running.output()
        assert outputs(log) == exact(6000), running.output()


@long
def test_workers_wait_for_a_broker_that_is_away_for_a_while(
    log: KafkaLog, kafka: str, cluster: Cluster, tmp_path: Path
) -> None:
    with workers(tmp_path, kafka) as running:
        running.start()
        feed(log, range(5000))
        until(lambda: committed(log) > 0, running)
        cluster.down()
        time.sleep(60)
        cluster.up()
        feed(log, range(5000, 6000))
        until(lambda: total(log) >= 6000, running)
        assert running.stop() == [0], running.output()
        assert outputs(log) == exact(6000), running.output()


TAKES_LONG_ONCE = """
import pathlib, time
def look(value):
    if not pathlib.Path("slept").exists():
        pathlib.Path("slept").touch()
        time.sleep(5)
    return value
"""


@long
def test_a_step_longer_than_the_session_is_repeated(log: KafkaLog, kafka: str, tmp_path: Path) -> None:
    with workers(tmp_path, f"{kafka}{SOON}&kafka.max.poll.interval.ms=2000", TAKES_LONG_ONCE) as running:
        running.start()
        feed(log, range(1000))
        until(lambda: total(log) >= 1000, running)
        assert running.stop() == [0], running.output()
        assert outputs(log) == exact(1000), running.output()
        assert "longer than kafka.max.poll.interval.ms" in running.output()


def test_too_large_records_end_the_worker_and_nothing_is_lost(log: KafkaLog, kafka: str, tmp_path: Path) -> None:
    log.delete("out")
    log.create(Topic("out", PARTITIONS, {"max.message.bytes": "100"}))
    with workers(tmp_path, kafka) as running:
        worker = running.start()
        feed(log, range(1000))
        assert worker.wait(PATIENCE) == 1
        running.running.remove(worker)
        assert "raise the topic's max.message.bytes" in running.output()
        assert total(log) == 0
        configured(kafka, "out", max_message_bytes="1000000")
        running.start()
        until(lambda: total(log) >= 1000, running)
        assert running.stop() == [0], running.output()
        assert outputs(log) == exact(1000), running.output()
