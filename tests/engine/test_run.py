"""A worker as a process's main work: what it does besides records, and topics that disappear while it runs."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

import pytest

from streamtopo import StreamsBuilder, Topology, Worker
from streamtopo.engine.topics import topics
from streamtopo.engine.worker import run
from streamtopo.errors import LogError, PartitionError, StreamtopoError
from streamtopo.logs import Log, Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.stores.backends.memory import MemoryStore


def counting() -> Topology:
    builder = StreamsBuilder("counting")
    stream = builder.stream("in", value=str)
    stream.group_by(lambda _, value: value, key=str).count(name="counts").to_stream().to("out")
    return builder.build()


def worker_on(log: Log) -> Worker:
    for name in ("in", "out"):
        log.create(Topic(name, 2))
    return Worker(counting(), log, lambda stores, partition: MemoryStore(), commit_pause=0)


def append(log: Log, topic: str = "in", count: int = 1) -> None:
    log.append(TopicPartition(topic, 0), Columns([None] * count, [b"x"] * count, [0] * count, None))


@pytest.fixture(params=["memory", "embedded"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    one = MemoryLog() if request.param == "memory" else EmbeddedLog(tmp_path / "log")
    yield one
    one.close()


# -- cleaning


@pytest.mark.parametrize("busy", [False, True])
def test_the_log_is_cleaned_between_turns(busy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EmbeddedLog(tmp_path / "log")
    log.create(Topic("old", 1, {"retention.bytes": "0"}))
    worker = worker_on(log)
    append(log, "old", 10)
    monkeypatch.setattr(run, "_BETWEEN_CLEANINGS", 0.05 if busy else 1e9)
    worked: list[bool] = []
    run_once = worker.run_once

    def turn(timeout: float) -> bool:
        if busy:
            append(log)
        worked.append(run_once(timeout))
        return worked[-1]

    monkeypatch.setattr(worker, "run_once", turn)
    within_a_minute(worker, lambda: log.start(TopicPartition("old", 0)) == 10)
    assert all(worked) is busy
    log.close()


def test_a_worker_that_is_never_idle_cleans_again_soon_if_there_is_more_to_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EmbeddedLog(tmp_path / "log")
    log.create(Topic("table", 1, {"cleanup.policy": "compact"}))
    worker = worker_on(log)
    for _ in range(40):
        log.append(TopicPartition("table", 0), Columns([b"%d" % key for key in range(1000)], [b"x"] * 1000, [0] * 1000))
    monkeypatch.setattr(run, "_CLEANING", 0)
    monkeypatch.setattr(run, "_BETWEEN_CLEANINGS", 0.5)
    monkeypatch.setattr(run, "_SOONER", 0.0)
    turns, cleaned = [0], []
    clean = log.clean

    def cleaning(slice_ms: float, memory: int) -> bool:
        cleaned.append((turns[0], clean(slice_ms)))
        return cleaned[-1][1]

    def feed() -> None:
        turns[0] += 1
        append(log)

    monkeypatch.setattr(log, "clean", cleaning)
    append(log)
    within_a_minute(worker, lambda: feed() or bool(cleaned and not cleaned[-1][1]))  # type: ignore[func-returns-value]
    assert len(cleaned) > 1
    assert [turn for turn, _ in cleaned] == list(range(cleaned[0][0], cleaned[0][0] + len(cleaned)))
    log.close()


def test_a_long_cleaning_gets_a_larger_share_of_the_time() -> None:
    pauses = [round(run.cleaning_pause(age), 3) for age in (0, 2, 4, 10, 20, 1000)]
    assert pauses == [0.2, 0.2, 0.1, 0.04, 0.02, 0.02]


def within_a_minute(worker: Worker, condition: Callable[[], bool]) -> None:
    late = threading.Timer(60, worker.stop)
    late.start()
    worker_stops = lambda: worker.stop() if condition() else None  # noqa: E731
    run.run(worker, each_turn=worker_stops, signals=False)
    late.cancel()
    assert condition()


# -- topics


def keep_working(worker: Worker) -> None:
    while worker.run_once():
        pass


@pytest.mark.parametrize("undurable", [False, True])
@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("in", 'source topic "in" was deleted while the worker was running; create it again'),
        ("out", 'sink topic "out" was deleted while the worker was running; create it again'),
        ("counting-counts-repartition", 'internal topic "counting-counts-repartition" was deleted while'),
        ("counting-counts-changelog", 'internal topic "counting-counts-changelog" was deleted while'),
    ],
)
def test_a_deleted_topic_is_an_error(
    topic: str, message: str, undurable: bool, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_BETWEEN_CHECKS", 0.0)
    worker = worker_on(log)
    append(log)
    keep_working(worker)
    if undurable:
        append(log)
        worker.run_once()
    log.delete(topic)
    with pytest.raises(PartitionError, match=message):
        keep_working(worker)
    worker.abandon()


@pytest.mark.parametrize("topic", ["in", "counting-counts-repartition"])
def test_a_change_of_the_assignment_is_reason_enough_to_check_the_topics(
    topic: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_BETWEEN_CHECKS", 1e9)
    worker = worker_on(log)
    keep_working(worker)
    log.delete(topic)
    with pytest.raises(PartitionError, match=f'"{topic}" was deleted while the worker was running'):
        keep_working(worker)
    worker.abandon()


def test_a_topic_that_is_recreated_is_another_topic(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_BETWEEN_CHECKS", 0.0)
    worker = worker_on(log)
    keep_working(worker)
    log.delete("in")
    log.create(Topic("in", 2))
    with pytest.raises(PartitionError, match="and created again; start the worker again to use the new one"):
        keep_working(worker)
    worker.abandon()
    after = worker_on(log)
    append(log)
    keep_working(after)
    assert log.end(TopicPartition("out", 0)) + log.end(TopicPartition("out", 1)) == 1
    after.close()


@pytest.mark.parametrize("topic", ["in", "out"])
def test_a_missing_topic_is_found_before_anything_starts(topic: str, log: Log) -> None:
    log.create(Topic({"in": "out", "out": "in"}[topic], 2))
    kind = {"in": "source", "out": "sink"}[topic]
    with pytest.raises(PartitionError, match=f'{kind} topic "{topic}" does not exist; create it first: streamtopo'):
        Worker(counting(), log, create_topics=0)
    Worker(counting(), log, lambda stores, partition: MemoryStore(), create_topics=2).close()
    assert log.topics()[topic].partitions == 2
    with suppress(StreamtopoError):
        log.delete(topic)


# -- commits


def test_a_commit_that_is_due_does_not_wait_for_other_tasks() -> None:
    """The rounds of all tasks may take longer than a log keeps a transaction open."""
    log = MemoryLog()
    for name in ("in", "out"):
        log.create(Topic(name, 2))
    builder = StreamsBuilder("slow")
    committed: list[int] = []

    def look(value: str) -> str:
        state = log.group("slow")
        committed.append(sum(at.offset for at in state.positions.values()) if state else 0)
        return value

    builder.stream("in", value=str).map_values(look).to("out")
    for number in range(2):
        log.append(TopicPartition("in", number), Columns([None], [b"x"], [0]))
    worker = Worker(builder.build(), log, lambda stores, partition: MemoryStore(), commit_interval="0ms")
    keep_working(worker)
    worker.close()
    assert committed == [0, 1]


# -- signals


def test_a_hanging_step_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    program = """
import time
from streamtopo import StreamsBuilder, Worker
builder = StreamsBuilder("hanging")
builder.stream("in").for_each(lambda key, value: (print("at work", flush=True), time.sleep(600)))
worker = Worker(builder.build(), "memory:", create_topics=1, close_timeout="500ms")
from streamtopo.records import Columns, TopicPartition
worker.log.append(TopicPartition("in", 0), Columns([None], [b"x"], [0]))
worker.run()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.terminate()
        _, output = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "ending without a commit" in output


# -- the log


def test_a_log_opened_by_the_worker_is_closed_with_it(tmp_path: Path) -> None:
    builder = StreamsBuilder("app")
    builder.stream("in").for_each(print)
    url, state = f"embedded:{tmp_path / 'log'}", str(tmp_path / "state")
    for end in (Worker.close, Worker.abandon):
        worker = Worker(builder, url, create_topics=1, state_dir=state)
        end(worker)
        with pytest.raises(LogError, match="is closed; open it again"):
            worker.log.topics()


@pytest.mark.parametrize("end", [Worker.close, Worker.abandon])
def test_a_worker_leaves_the_group_even_if_the_log_fails(
    end: Callable[[Worker], None], log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create(Topic("in", 1))
    log.create(Topic("out", 1))
    worker = Worker(counting(), log, lambda stores, partition: MemoryStore(), commit_interval="1h", commit_pause="1h")
    keep_working(worker)
    append(log)
    worker.run_once()

    def fail(*_: object) -> None:
        raise LogError("the cluster is away")

    monkeypatch.setattr(worker.member, "commit", fail)
    monkeypatch.setattr(worker.member, "abort", fail)
    with pytest.raises(LogError, match="the cluster is away"):
        end(worker)
    state = log.group("counting")
    assert state is None or not state.members
