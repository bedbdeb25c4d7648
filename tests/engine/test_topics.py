"""Internal topics that already exist when a worker starts."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from threading import Thread
from typing import Any

import pytest

from streamtopo import StreamsBuilder, Topology, Worker
from streamtopo.engine.topics.topics import Topics
from streamtopo.errors import LogError, PartitionError
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.settings.config import WorkerConfig
from streamtopo.stores import StoreSpec
from streamtopo.stores.backends.memory import MemoryStore

CHANGELOG = "app-words-changelog"


def counting() -> Topology:
    builder = StreamsBuilder("app")
    builder.stream("in", key=str).group_by_key().count(name="words")
    return builder.build()


def started(log: MemoryLog, **options: Any) -> None:
    def open_store(stores: tuple[StoreSpec, ...], partition: int) -> MemoryStore:
        return MemoryStore()

    Worker(counting(), log, open_store, **options).close()


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create(Topic("in", 1))
    return log


@pytest.mark.parametrize(("config", "kept"), [({}, "delete"), ({"cleanup.policy": "compact,delete"}, "compact,delete")])
def test_a_changelog_that_would_lose_rows_is_refused(log: MemoryLog, config: dict[str, str], kept: str) -> None:
    log.create(Topic(CHANGELOG, 1, config))
    with pytest.raises(PartitionError) as refused:
        started(log)
    assert str(refused.value) == (
        f'internal topic "{CHANGELOG}" exists with cleanup.policy={kept}, but the topology needs compact; save what '
        f"you need from it, delete it (streamtopo topics delete {CHANGELOG}), and start again"
    )
    log.delete(CHANGELOG)
    started(log)
    assert log.topics()[CHANGELOG].config["cleanup.policy"] == "compact"


def test_a_changelog_keeps_its_other_settings(log: MemoryLog, caplog: pytest.LogCaptureFixture) -> None:
    config = {"cleanup.policy": "compact", "delete.retention.ms": "5"}
    log.create(Topic(CHANGELOG, 1, config))
    started(log)
    assert log.topics()[CHANGELOG].config == config
    assert f'internal topic "{CHANGELOG}" keeps the config {config} it was created with' in caplog.text


def test_a_changelog_whose_settings_are_hidden_is_accepted(log: MemoryLog, caplog: pytest.LogCaptureFixture) -> None:
    log.create(Topic(CHANGELOG, 1, config_known=False))
    started(log, no_create=True)
    assert caplog.text == ""


def test_a_second_start_logs_nothing(log: MemoryLog, caplog: pytest.LogCaptureFixture) -> None:
    started(log)
    caplog.clear()
    started(log)
    assert caplog.text == ""


def test_topics_are_not_created_if_that_is_switched_off(log: MemoryLog) -> None:
    with pytest.raises(PartitionError, match=rf"create {CHANGELOG} --partitions 1 --config cleanup.policy=compact --"):
        started(log, no_create=True)
    assert list(log.topics()) == ["in"]
    log.create(Topic(CHANGELOG, 2, {"cleanup.policy": "compact"}))
    with pytest.raises(LogError, match="exists with 2 partitions, not 1"):
        started(log, no_create=True)
    log.delete(CHANGELOG)
    log.create(Topic(CHANGELOG, 1, {"cleanup.policy": "compact"}))
    started(log, no_create=True, create_topics=4)
    assert log.note("app/fingerprint") is None
    log.delete("in")
    with pytest.raises(PartitionError, match='source topic "in" does not exist'):
        started(log, no_create=True, create_topics=4)


def test_a_topic_that_is_created_in_time_is_waited_for(log: MemoryLog, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "streamtopo")
    log.delete("in")
    with pytest.raises(PartitionError, match='source topic "in" does not exist'):
        started(log, wait_for_topics="1ms")
    starting = Thread(target=lambda: started(log, wait_for_topics="1m"), daemon=True)
    caplog.clear()
    starting.start()
    while not caplog.messages:
        starting.join(0.01)
    assert caplog.messages == ['waiting for source topic "in"']
    log.create(Topic("in", 1))
    starting.join()
    assert CHANGELOG in log.topics()


def test_topics_of_a_pattern_are_listed_rarely_if_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    log, looks = MemoryLog(), 0
    log.create(Topic("in-1", 1))
    builder = StreamsBuilder("app")
    builder.stream(re.compile("in-.*"), key=str).group_by_key().count(name="words")
    topics = Topics(builder.build(), log, WorkerConfig())
    there = log.topics

    def slow() -> Mapping[str, Topic]:
        nonlocal looks
        looks += 1
        time.sleep(0.01)
        return there()

    monkeypatch.setattr(log, "topics", slow)
    assert not any(topics.refresh() for _ in range(50))
    assert 0 < looks < 10
    log.create(Topic("in-2", 1))
    while not topics.refresh():
        pass
    assert topics.plan.topics == (("in-1", "in-2"),)


def test_a_missing_topic_gets_as_many_partitions_as_those_it_is_joined_with(log: MemoryLog) -> None:
    builder = StreamsBuilder("app")
    prices = builder.table("prices", key=str, value=float)
    builder.stream("in", key=str).join(prices, lambda order, price: price).to("out")
    topics = Topics(builder.build(), log, WorkerConfig())
    assert topics.created == {"prices": 1, "out": 4}
    wide = builder.stream("words", key=str).repartition(name="wide", partitions=8)
    wide.join(builder.table("more", key=str), lambda *both: both).to("out")
    assert Topics(builder.build(), log, WorkerConfig()).created == {"words": 4, "more": 8}


def test_a_missing_topic_is_not_created_where_somebody_else_is_expected_to(log: MemoryLog) -> None:
    log.delete("in")
    with pytest.raises(PartitionError, match='source topic "in" does not exist'):
        started(log, wait_for_topics="1ms")
    started(log)
    assert log.topics()["in"].partitions == 4


def test_a_running_application_with_the_same_id_is_noticed(log: MemoryLog, caplog: pytest.LogCaptureFixture) -> None:
    def other() -> Topology:
        builder = StreamsBuilder("app")
        builder.stream("in", key=str).group_by_key().count(name="words").to_stream().to("out")
        return builder.build()

    running = Worker(counting(), log, lambda stores, partition: MemoryStore())
    running.run_once()
    Topics(counting(), log, WorkerConfig())
    assert caplog.text == ""
    Topics(other(), log, WorkerConfig())
    assert 'workers with the application id "app" are running with another topology' in caplog.text
    running.close()
    caplog.clear()
    Topics(counting(), log, WorkerConfig())
    assert caplog.text == ""
