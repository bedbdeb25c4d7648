"""Records that a real broker, or its client, refuses as too large: each of them fails alone, and what fails is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamtopo import StreamsBuilder, Worker
from streamtopo.errors import StepError
from streamtopo.logs import Log, Topic
from streamtopo.logs.opening import open_log
from streamtopo.records import Columns, TopicPartition
from tests.crash.apps import catch_up
from tests.kafka.brokers import emptied
from tests.logs.child import until

pytestmark = pytest.mark.kafka

LARGE = "?kafka.message.max.bytes=3000000"


def long_texts() -> StreamsBuilder:
    """Texts of as many letters as the numbers say."""
    builder = StreamsBuilder("texts")
    builder.stream("in", value=int).map_values(lambda number: "x" * number, value=str).to("out")
    return builder


def prepared(kafka: str, **config: str) -> Log:
    emptied(kafka).close()
    log = open_log(kafka + LARGE)
    for name in ("in", "out"):
        log.create(Topic(name, 1, config))
    return log


def work(builder: StreamsBuilder, url: str, path: Path, **options: Any) -> None:
    worker = Worker(builder, log=url, state_dir=str(path), **options)
    try:
        catch_up(worker)
    except BaseException:
        worker.abandon()
        raise
    worker.close()


def written(log: Log, topic: str) -> Columns:
    """The records of a topic. The broker shows them a moment after the commit."""
    until(lambda: log.read(TopicPartition(topic, 0), 0, 1000).columns.keys)
    return log.read(TopicPartition(topic, 0), 0, 1000).columns


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize(("config", "largest"), [({}, 2_000_000), ({"max.message.bytes": "200000"}, 500_000)])
def test_a_record_that_is_too_large_fails_alone(
    kafka: str, tmp_path: Path, config: dict[str, str], largest: int, guarantee: str
) -> None:
    """The client refuses two megabytes; the broker refuses what the topic does not take."""
    log = prepared(kafka, **config)
    numbers = [10, largest, 20]
    log.append(TopicPartition("in", 0), Columns([None] * 3, [n.to_bytes(8) for n in numbers], [0] * 3))
    work(long_texts(), kafka, tmp_path, on_error="dead_letter", guarantee=guarantee)
    until(lambda: {len(value or b"") for value in written(log, "out").values} == {10, 20})
    letters = written(log, "dlq.texts")
    assert letters.values == [largest.to_bytes(8)]
    headers = dict((letters.headers or [()])[0])
    assert headers["__streamtopo.errors.stage"] == b"produce"
    assert b"bytes; topic " in (headers["__streams.errors.message"] or b"")
    log.close()


def test_the_error_names_the_record(kafka: str, tmp_path: Path) -> None:
    log = prepared(kafka)
    log.append(TopicPartition("in", 0), Columns([None] * 2, [n.to_bytes(8) for n in (10, 2_000_000)], [0] * 2))
    with pytest.raises(StepError, match=r"in/0 offset 1: .*has 2,000,000 bytes; topic \"out\" takes"):
        work(long_texts(), kafka, tmp_path)
    log.close()


def test_a_dead_letter_that_is_too_large_is_cut(kafka: str, tmp_path: Path) -> None:
    builder = StreamsBuilder("texts")
    builder.stream("in", value=int).to("out")
    log = prepared(kafka, **{"max.message.bytes": "3000000"})
    value = b"x" * 1_500_000
    log.append(TopicPartition("in", 0), Columns([b"k"], [value], [5], [(("mine", b"1"),)]))
    work(builder, kafka, tmp_path, on_error="dead_letter")
    columns = written(log, "dlq.texts")
    (cut,), (headers,) = columns.values, columns.headers or [()]
    assert 900_000 < len(cut or b"") < 1_000_000
    assert dict(headers)["__streamtopo.errors.cut"] == b"1500000"
    assert headers[0] == ("mine", b"1")
    log.close()


def test_headers_of_several_megabytes_do_not_stop_the_worker(kafka: str, tmp_path: Path) -> None:
    builder = StreamsBuilder("texts")
    builder.stream("in", value=int).to("out")
    log = prepared(kafka, **{"max.message.bytes": "3000000"})
    log.append(TopicPartition("in", 0), Columns([b"k"], [b"no int"], [5], [(("mine", b"x" * 2_000_000),)]))
    work(builder, kafka, tmp_path, on_error="dead_letter")
    columns = written(log, "dlq.texts")
    headers = dict((columns.headers or [()])[0])
    assert (columns.keys, columns.values) == ([b"k"], [b"no int"])
    assert "mine" not in headers
    assert headers["__streamtopo.errors.cut"] == b"6"
    log.close()
