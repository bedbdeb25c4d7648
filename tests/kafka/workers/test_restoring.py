"""Stores restored from changelogs on a cluster: ending with markers, empty, truncated, compacted, or many at once."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamtopo import StreamsBuilder, Topology, Worker
from streamtopo.engine.task.task import Task
from streamtopo.logs import Topic
from streamtopo.logs.kafka import KafkaLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from tests.kafka.brokers import configured, emptied
from tests.logs.child import until
from tests.logs.records import settled
from tests.long import long

pytestmark = pytest.mark.kafka
CHANGELOG = TopicPartition("restoring-counts-changelog", 0)
IN = TopicPartition("in", 0)
KEYS = [b"%d" % number for number in range(10)]
PATIENCE = 120.0


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    log = emptied(kafka)
    log.create(Topic("in", 1))
    yield log
    log.close()


def counting(name: str = "restoring") -> Topology:
    builder = StreamsBuilder(name)
    builder.stream("in", key=str).group_by_key().count(name="counts")
    return builder.build()


def count(log: KafkaLog, state: Path, *keys: bytes) -> dict[str, int]:
    """Count these keys too, with the stores in this directory, and return all counts."""
    if keys:
        log.append(IN, Columns(list(keys), [b""] * len(keys), [time.time_ns() // 1_000_000] * len(keys)))
    worker = Worker(counting(), log, state_dir=str(state), cache=0)
    until(lambda: not worker.run_once(0.05) and worker.tasks and worker.member.committed([IN]) == at_end(log), PATIENCE)
    (task,) = worker.tasks.values()
    view = task.states["counts"]
    found = {key.decode(): row[0] for key in KEYS if (row := view.row(key.decode())) is not None}
    worker.close()
    return found


def at_end(log: KafkaLog) -> object:
    state = log.groups()["restoring"].positions
    return {IN: state[IN]} if state.get(IN, (0,))[0] == log.end(IN) else None


def test_a_changelog_that_ends_with_an_aborted_transaction(log: KafkaLog, tmp_path: Path) -> None:
    assert count(log, tmp_path / "a", *KEYS, *KEYS) == {key.decode(): 2 for key in KEYS}
    other = log.join("other", [("in",)])
    settled(other)
    end = log.end(CHANGELOG)
    other.send(CHANGELOG, Columns([b"0"], [b"\0" * 8], [1]))
    until(lambda: log.end(CHANGELOG) > end)
    other.abort()
    other.leave()
    assert count(log, tmp_path / "b", b"0") == {key.decode(): 3 if key == b"0" else 2 for key in KEYS}


def test_an_old_store_is_brought_up_to_date_and_one_of_a_deleted_changelog_starts_empty(
    log: KafkaLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    count(log, tmp_path / "a", *KEYS)
    shutil.copytree(tmp_path / "a", tmp_path / "old")
    count(log, tmp_path / "a", b"0", b"0")
    assert count(log, tmp_path / "old", b"0") == {key.decode(): 4 if key == b"0" else 1 for key in KEYS}
    assert "rebuilt from" not in caplog.text
    log.delete(CHANGELOG.topic)
    assert count(log, tmp_path / "a", b"0") == {"0": 1}
    assert "rebuilt from" in caplog.text


def test_an_empty_changelog_and_a_truncated_one(
    log: KafkaLog, kafka: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.create(Topic(CHANGELOG.topic, 1, {"cleanup.policy": "compact"}))
    assert count(log, tmp_path / "a", b"0", b"0") == {"0": 2}
    assert count(log, tmp_path / "b", b"1") == {"0": 2, "1": 1}
    configured(kafka, CHANGELOG.topic, cleanup_policy="delete")
    log.delete_before(CHANGELOG, log.end(CHANGELOG))
    configured(kafka, CHANGELOG.topic, cleanup_policy="compact")
    assert count(log, tmp_path / "a", b"2") == {"2": 1}
    assert "it is behind the start of its changelog" in caplog.text
    assert count(log, tmp_path / "c", b"2") == {"2": 2}


@long
def test_a_compacted_changelog(log: KafkaLog, kafka: str, tmp_path: Path) -> None:
    assert count(log, tmp_path / "a", *KEYS * 50) == {key.decode(): 50 for key in KEYS}
    configured(kafka, CHANGELOG.topic, segment_ms="1000", min_cleanable_dirty_ratio="0.0")
    configured(kafka, CHANGELOG.topic, max_compaction_lag_ms="1000")

    def compacted() -> bool:
        count(log, tmp_path / "a", b"0")  # the active segment is not compacted
        return len(log.read(CHANGELOG, log.start(CHANGELOG), 10_000).offsets) < 200

    until(compacted, PATIENCE)
    before = count(log, tmp_path / "a")
    assert before.pop("0") > 50
    restored = count(log, tmp_path / "b")
    del restored["0"]
    assert restored == before == {key.decode(): 50 for key in KEYS[1:]}


@long
def test_64_stateful_partitions_are_shared_with_a_second_worker(
    log: KafkaLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.delete("in")
    log.create(Topic("in", 64))
    keys = [b"%d" % number for number in range(640)]
    feed(log, keys)
    one = Worker(counting("many"), log, state_dir=str(tmp_path / "one"), cache=0)
    until(lambda: not one.run_once(0.05) and len(one.tasks) == 64 and one.metrics().records == 640, PATIENCE)
    two = Worker(counting("many"), log, state_dir=str(tmp_path / "two"), cache=0)

    def shared() -> bool:
        one.run_once(0.01)
        two.run_once(0.01)
        return len(one.tasks) == len(two.tasks) == 32

    until(shared, PATIENCE)
    feed(log, keys)
    until(lambda: shared() and one.metrics().records + two.metrics().records == 1280, PATIENCE)
    for worker in (one, two):
        worker.commit()
    rows = [task.states["counts"].row(key.decode()) for key in keys for task in tasks_of(key, one, two)]
    assert [row and row[0] for row in rows] == [2] * 640
    assert "going back to the last commit" not in caplog.text
    assert "took away the tasks of this worker" not in caplog.text
    one.close()
    two.close()


def feed(log: KafkaLog, keys: list[bytes]) -> None:
    for key in keys:
        target = TopicPartition("in", partition_of(key, 64))
        log.append(target, Columns([key], [b""], [time.time_ns() // 1_000_000]))


def tasks_of(key: bytes, *workers: Worker) -> list[Task]:
    partition = partition_of(key, 64)
    return [task for worker in workers for id, task in worker.tasks.items() if id.partition == partition]
