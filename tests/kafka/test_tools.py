"""Kafka's own console tools read what streamtopo writes, and the reverse."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamtopo import StreamsBuilder, Worker
from streamtopo.broker import find_java, jars
from streamtopo.logs import Topic
from streamtopo.logs.kafka import KafkaLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from tests.jvms import BRIEF
from tests.kafka.brokers import emptied
from tests.logs.child import until

pytestmark = pytest.mark.kafka
NOW = 1_790_000_000_000


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    log = emptied(kafka)
    yield log
    log.close()


def tool(name: str, *arguments: str, given: str = "") -> str:
    java = find_java()
    command = [java, *BRIEF, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-cp", os.pathsep.join(map(str, jars(java)))]
    done = subprocess.run(
        [*command, f"org.apache.kafka.tools.{name}", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def consumed(kafka: str, topic: str, count: int, *properties: str) -> list[str]:
    printed = ("print.partition=true", "print.timestamp=true", "print.headers=true", "print.key=true", *properties)
    formatted = [option for one in printed for option in ("--property", one)]
    address = kafka.removeprefix("kafka://")
    output = tool(
        *("consumer.ConsoleConsumer", "--bootstrap-server", address, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(count), "--isolation-level", "read_committed", *formatted),
    )
    return sorted(line for line in output.splitlines() if not line.startswith("Option --property is deprecated"))


def test_the_console_consumer_reads_our_records(log: KafkaLog, kafka: str) -> None:
    log.create(Topic("t", 2))
    columns = Columns([b"k", None], [b"v", None], [NOW, NOW + 1], [(("trace", b"1"),), ()])
    log.append(TopicPartition("t", 1), columns)
    assert consumed(kafka, "t", 2) == [
        f"CreateTime:{NOW}\tPartition:1\ttrace:1\tk\tv",
        f"CreateTime:{NOW + 1}\tPartition:1\tNO_HEADERS\tnull\tnull",
    ]


def test_we_read_records_of_the_console_producer_from_the_expected_partitions(log: KafkaLog, kafka: str) -> None:
    log.create(Topic("t", 5))
    keys = [f"key {number}" for number in range(50)]
    tool(
        *("ConsoleProducer", "--bootstrap-server", kafka.removeprefix("kafka://"), "--topic", "t"),
        *("--property", "parse.key=true", "--property", "key.separator=:"),
        given="".join(f"{key}:value\n" for key in keys),
    )
    found = {
        key: partition
        for partition in range(5)
        for key in log.read(TopicPartition("t", partition), 0, 1000).columns.keys
    }
    assert found == {key.encode(): partition_of(key.encode(), 5) for key in keys}


def test_the_groups_tool_and_the_consumer_see_a_count(log: KafkaLog, kafka: str, tmp_path: Path) -> None:
    for name in ("words", "counts"):
        log.create(Topic(name, 1))
    builder = StreamsBuilder("tools")
    builder.stream("words", key=str, value=str).group_by_key().count(name="store").to_stream().to("counts")
    log.append(TopicPartition("words", 0), Columns([b"a", b"b", b"a"], [b""] * 3, [NOW, NOW, NOW + 1]))
    worker = Worker(builder.build(), log, state_dir=str(tmp_path))
    until(lambda: worker.run_once(0.1) is False and worker.member.committed([TopicPartition("words", 0)]))
    worker.close()
    output = tool(
        *("consumer.group.ConsumerGroupCommand", "--bootstrap-server", kafka.removeprefix("kafka://")),
        *("--describe", "--group", "tools"),
    )
    (row,) = [line.split() for line in output.splitlines() if line.startswith("tools")]
    assert row[1:6] == ["words", "0", "3", "3", "0"]
    longs = ("value.deserializer=org.apache.kafka.common.serialization.LongDeserializer",)
    assert [line.split("\t")[-2:] for line in consumed(kafka, "counts", 2, *longs)] == [["b", "1"], ["a", "2"]]


def test_a_read_ends_when_it_has_enough_bytes(log: KafkaLog) -> None:
    log.create(Topic("t", 1))
    target = TopicPartition("t", 0)
    values = [b"%d" % number * 300_000 for number in range(8)]
    for value in values:
        log.append(target, Columns([None], [value], [NOW], None))
    read, offset = [], 0
    while offset < log.end(target):
        batch = log.read(target, offset, 100, 600_000)
        read.append(batch.columns.values)
        offset = batch.next_offset
    assert [value for some in read for value in some] == values
    assert [len(some) for some in read] == [2, 2, 2, 2]


def test_timestamp_zero_does_not_become_the_current_time(log: KafkaLog) -> None:
    log.create(Topic("t", 1))
    target = TopicPartition("t", 0)
    log.append(target, Columns([b"k"] * 3, [b"v"] * 3, [0, 1, 0]))
    assert log.read(target, 0, 3).columns.timestamps == [1, 1, 1]
