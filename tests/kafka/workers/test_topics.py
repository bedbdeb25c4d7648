"""The topics of an application on a cluster: planned, created by someone else, and changed while it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)

from streamtopo import StreamsBuilder, Worker
from streamtopo.cli import main
from streamtopo.engine.loading import load_topology
from streamtopo.engine.plan import CHANGELOG_CONFIG, REPARTITION_CONFIG
from streamtopo.errors import LogError, PartitionError
from streamtopo.logs import Topic
from streamtopo.logs.kafka import KafkaLog
from streamtopo.logs.opening import open_log
from streamtopo.records import Columns, TopicPartition
from streamtopo.windows import FOREVER
from tests.kafka.brokers import configured, emptied
from tests.logs.child import until

pytestmark = pytest.mark.kafka
# Workers accept changes: other tests may have run the same application with more partitions.
APP = "apps.wordcount"
REPARTITION, CHANGELOG = "wordcount-counts-repartition", "wordcount-counts-changelog"
TIMES = "log.message.timestamp.type"


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    log = emptied(kafka)
    log.create(Topic("sentences", 3))
    log.create(Topic("word-counts", 1))
    yield log
    log.close()


def plan(kafka: str) -> dict[str, tuple[int, dict[str, str], str]]:
    result = CliRunner().invoke(main, ["topics", "plan", APP, "--log", kafka, "--json"])
    assert result.exit_code == 0, result.output
    return {row["topic"]: (row["partitions"], row["config"], row["state"]) for row in json.loads(result.stdout)}


def test_planned_topics_can_be_created_by_someone_else(log: KafkaLog, kafka: str, tmp_path: Path) -> None:
    topology, state = load_topology(APP), str(tmp_path)
    planned = plan(kafka)
    assert planned == {
        "sentences": (3, {}, "exists"),
        "word-counts": (1, {}, "exists"),
        REPARTITION: (3, REPARTITION_CONFIG, "will be created"),
        CHANGELOG: (3, CHANGELOG_CONFIG, "will be created"),
    }
    with pytest.raises(PartitionError, match=f'internal topic "{REPARTITION}" does not exist; create it'):
        Worker(topology, log, state_dir=state, no_create=True, accept_changes=True)
    log.create(Topic(REPARTITION, 3, planned[REPARTITION][1]))
    log.create(Topic(CHANGELOG, 2))
    assert plan(kafka)[CHANGELOG][2] == "exists with 2 partitions"
    log.delete(CHANGELOG)
    log.create(Topic(CHANGELOG, 3, planned[CHANGELOG][1]))
    assert {state for _, _, state in plan(kafka).values()} == {"exists"}
    worker = Worker(topology, log, state_dir=state, no_create=True, accept_changes=True)
    until(lambda: worker.run_once(0.05) is None or len(worker.tasks) == 6)
    worker.close()


def test_added_partitions_of_a_source_end_the_worker(log: KafkaLog, kafka: str, tmp_path: Path) -> None:
    worker = Worker(load_topology(APP), log, state_dir=str(tmp_path), accept_changes=True)
    until(lambda: worker.run_once(0.05) is None or len(worker.tasks) == 6)
    admin = AdminClient({"bootstrap.servers": kafka.removeprefix("kafka://")})
    admin.create_partitions([NewPartitions("sentences", 5)])["sentences"].result()
    with pytest.raises(PartitionError, match='source topic "sentences" has 5 partitions now, and had 3'):
        until(lambda: worker.run_once(0.05) is None)
    worker.abandon()


def test_internal_topics_have_the_config_that_the_topology_needs(log: KafkaLog, kafka: str, tmp_path: Path) -> None:
    """Timestamps are those of the records, and it is defined how long deletions are kept."""
    log.create(Topic("bare", 1))
    with cluster_configured(kafka, {TIMES: "LogAppendTime", "log.cleaner.delete.retention.ms": "1000"}):
        inherited = {"delete.retention.ms": "1000", "message.timestamp.type": "LogAppendTime"}
        until(lambda: log.topics()["bare"].inherited == inherited)
        worker = Worker(load_topology(APP), log, state_dir=str(tmp_path), accept_changes=True)
        worker.close()
        for name in (REPARTITION, CHANGELOG):
            log.append(TopicPartition(name, 0), Columns([b"k"], [b"v"], [5]))
            assert log.read(TopicPartition(name, 0), 0, 1).columns.timestamps == [5]
        log.delete(REPARTITION)
        log.create(Topic(REPARTITION, 3))
        assert plan(kafka)[REPARTITION][2] == "exists with message.timestamp.type=LogAppendTime"
        with pytest.raises(PartitionError, match="type=LogAppendTime, but the topology needs CreateTime"):
            Worker(load_topology(APP), log, state_dir=str(tmp_path), accept_changes=True)


@contextmanager
def cluster_configured(kafka: str, config: dict[str, str]) -> Iterator[None]:
    admin = AdminClient({"bootstrap.servers": kafka.removeprefix("kafka://")})

    def alter(operation: AlterConfigOpType) -> None:
        entries = [ConfigEntry(name, value, incremental_operation=operation) for name, value in config.items()]
        resource = ConfigResource(ConfigResource.Type.BROKER, "0", incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result()

    alter(AlterConfigOpType.SET)
    try:
        yield
    finally:
        alter(AlterConfigOpType.DELETE)


def test_a_topic_not_yet_known_to_a_broker_exists_and_a_deleted_one_does_not(
    log: KafkaLog, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, lagging = log._admin.topics._described_all, [True, True]

    def described() -> dict[str, Topic | None]:
        found = ask()
        if lagging and lagging.pop():
            del found["sentences"]
        return found

    assert "sentences" in log.topics()
    monkeypatch.setattr(log._admin.topics, "_described_all", described)
    assert "sentences" in log.topics()
    assert not lagging
    with closing(open_log(kafka)) as other:
        other.delete("sentences")
    assert "sentences" not in log.topics()


def test_two_applications_with_the_same_internal_names_are_separate(log: KafkaLog, tmp_path: Path) -> None:
    log.append(TopicPartition("sentences", 0), Columns([None], [b"a b a"], [5]))
    workers = []
    for name in ("one", "two"):
        builder = StreamsBuilder(name)
        words = builder.stream("sentences", value=str).flat_map_values(str.split)
        words.group_by(lambda _, word: word, key=str).count(name="counts")
        workers.append(Worker(builder.build(), log, state_dir=str(tmp_path), accept_changes=True))

    def counts(worker: Worker) -> dict[str, int]:
        states = [task.states["counts"] for task in worker.tasks.values() if task.states]
        return {word: row[0] for word in "ab" for state in states if (row := state.row(word))}

    def both() -> bool:
        return [worker.run_once(0.05) is not None and counts(worker) for worker in workers] == [{"a": 2, "b": 1}] * 2

    until(both)
    internal = {f"{name}-counts-{kind}" for name in ("one", "two") for kind in ("changelog", "repartition")}
    assert log.topics().keys() == internal | {"sentences", "word-counts"}
    for worker in workers:
        worker.close()


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_deleted_sink_topic_ends_the_worker(kafka: str, tmp_path: Path, guarantee: str) -> None:
    with closing(emptied(kafka)) as log:
        for topic in ("in", "out"):
            log.create(Topic(topic, 1))
        builder = StreamsBuilder("sinks")
        builder.stream("in", value=str).to("out")
        worker = Worker(builder.build(), log, state_dir=str(tmp_path), guarantee=guarantee)
        source, sink = TopicPartition("in", 0), TopicPartition("out", 0)
        log.append(source, Columns([None], [b"x"], [0]))
        until(lambda: worker.run_once(0.05) is None or log.end(sink) > 0)
        log.delete("out")
        log.append(source, Columns([None], [b"y"], [0]))
        with pytest.raises(PartitionError, match='sink topic "out" was deleted while the worker was running'):
            worker.run()


def test_records_from_the_future_pass_through_internal_topics(kafka: str, tmp_path: Path) -> None:
    """By default brokers refuse such records: the error for one of these topics says what to do."""
    with closing(emptied(kafka)) as log:
        for topic in ("in", "out"):
            log.create(Topic(topic, 1))
        builder = StreamsBuilder("future")
        days = builder.stream("in", value=dict, timestamp="at").group_by(lambda _, value: value["day"], key=str)
        days.count().to_stream().to("out")
        worker = Worker(builder.build(), log, state_dir=str(tmp_path))
        log.append(TopicPartition("in", 0), Columns([None], [b'{"day": "a", "at": 32503680000000}'], [0]))
        with pytest.raises(
            LogError, match=r"out/0 was not written: INVALID_TIMESTAMP: .* raise its message\.timestamp\.aft"
        ):
            worker.run()
        configured(kafka, "out", message_timestamp_after_max_ms=str(FOREVER))
        worker = Worker(builder.build(), log, state_dir=str(tmp_path))
        until(lambda: worker.run_once(0.05) is None or log.end(TopicPartition("out", 0)) > 0)
        worker.close()


def test_the_lag_is_unknown_until_the_cluster_reports_it(kafka: str, tmp_path: Path) -> None:
    with closing(emptied(kafka)) as log:
        log.create(Topic("in", 1))
        log.append(TopicPartition("in", 0), Columns([None] * 5, [b"x"] * 5, [0] * 5))
        builder = StreamsBuilder("lagging")
        builder.stream("in", value=str).for_each(lambda key, value: None)
        worker = Worker(builder.build(), log, state_dir=str(tmp_path))
        worker.paused = True
        seen = [worker.metrics().lag]
        while seen[-1] is None:
            worker.run_once(0.01)
            seen.append(worker.metrics().lag)
        worker.close()
        assert set(seen) == {None, 5}
