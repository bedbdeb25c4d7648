"""Rare cases: empty partitions, headers through all operators, the first millisecond."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import (
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    key_value_store,
    until_time_limit,
    versioned_store,
)
from streamtopo.errors import PartitionError, StepError
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.partitioning import partition_of
from streamtopo.processors import Clock
from streamtopo.records import Columns, TopicPartition
from streamtopo.testing import Driver, DriverRecord

TRACE = (("trace", b"1"),)


def test_headers_stay_with_their_record() -> None:
    builder = StreamsBuilder("corner")
    stream = builder.stream("in", key=str, value=str).filter(lambda _, value: value != "b")
    low, high = stream.split([lambda _, value: value < "d"], default=True).values()
    low.flat_map_values(lambda value: [value, value.upper()]).merge(high).to("out")
    driver = Driver(builder.build())
    driver.send_all([DriverRecord("in", "k", value, 1, -1, ((value, b"1"),)) for value in "abcd"])
    driver.send("in", "e", key="k")
    assert [(record.value, record.headers) for record in driver.records("out")] == [
        *[(value, ((value.lower(), b"1"),)) for value in ("a", "A", "c", "C", "d")],
        ("e", ()),
    ]


def test_headers_of_buffered_records_without_a_value_survive_a_restart() -> None:
    builder = StreamsBuilder("corner")
    table = builder.table("table", key=str, value=str, versioned=100)
    waiting = builder.stream("in", key=str, value=str).left_join(table, lambda value, row: f"{value} {row}", grace=5)
    waiting.to("joined")
    latest = builder.stream("in", key=str, value=str).to_table(name="latest")
    latest.suppress(until_time_limit(5)).to_stream().to("latest")
    headers = (("none", None), ("empty", b""), ("trace", b"1"))
    driver = Driver(builder.build())
    driver.send("in", "a", key="k", timestamp=0, headers=headers)
    assert driver.records("joined") == driver.records("latest") == []
    driver.crash()
    driver.restart()
    driver.send("in", "b", key="other", timestamp=9)
    assert [(row.value, row.headers) for row in driver.records("joined")] == [("a None", headers)]
    assert [(row.value, row.headers) for row in driver.records("latest")] == [("a", headers)]


def test_timestamp_zero_is_valid() -> None:
    builder = StreamsBuilder("corner")
    builder.stream("in", value=int, timestamp=lambda _, value: value).to("out")
    driver = Driver(builder.build())
    driver.send_all([DriverRecord("in", None, value, 99) for value in (0, -1, 1)])
    assert [record.timestamp for record in driver.records("out")] == [0, 1]
    assert driver.dropped() == {"negative timestamp": 1}


def test_a_record_without_a_key_stays_in_its_partition() -> None:
    builder = StreamsBuilder("corner")
    builder.stream("in", key=str, value=str).to("out")
    driver = Driver(builder.build(), partitions=3)
    for partition in (2, 0, 1):
        driver.send("in", f"from {partition}", partition=partition)
    assert {record.value: record.partition for record in driver.records("out")} == {
        f"from {partition}": partition for partition in range(3)
    }


def test_a_partitioner_may_return_none_for_the_default_partition() -> None:
    builder = StreamsBuilder("corner")
    chosen = {"first": 0, "usual": None, "wrong": 3}
    builder.stream("in", key=str, value=str).to("out", partitioner=lambda topic, key, value, count: chosen[value])
    driver = Driver(builder.build(), partitions=3)
    key = next(key for key in "abcdef" if partition_of(key.encode(), 3) == 2)
    driver.send("in", "first", key=key)
    driver.send("in", "usual", key=key)
    assert [(record.value, record.partition) for record in driver.records("out")] == [("first", 0), ("usual", 2)]
    with pytest.raises(StepError, match='chose partition 3 of topic "out"; return 0 to 2, or None'):
        driver.send("in", "wrong", key=key)


def test_topics_read_together_must_have_the_same_number_of_partitions() -> None:
    builder = StreamsBuilder("corner")
    left, right = builder.stream("left", key=str, value=str), builder.stream("right", key=str, value=str)
    left.merge(right).group_by_key().count()
    log = MemoryLog()
    log.create(Topic("left", 2))
    log.create(Topic("right", 3))
    with pytest.raises(PartitionError) as raised:
        Driver(builder.build(), log=log)
    assert str(raised.value) == (
        'topics "left" and "right" are read together by a step with state, but have 2 and 3 partitions; '
        "give both the same number, or bring right to 2 in the topology: a stream with .repartition(partitions=2), "
        "a table with .to_stream().repartition(partitions=2).to_table()"
    )


def test_a_merge_with_a_rekeyed_stream_is_repartitioned() -> None:
    builder = StreamsBuilder("corner")
    stream = builder.stream("in", key=str, value=str)
    rekeyed = stream.select_key(lambda _, value: value)
    stream.merge(rekeyed).group_by_key().count(name="left")
    rekeyed.merge(stream).group_by_key().count(name="right")
    assert list(builder.build().repartitions) == ["left-repartition", "right-repartition"]


def test_each_drop_is_counted() -> None:
    builder = StreamsBuilder("corner")
    stream = builder.stream("in", key=str, value=str)
    stream.to_table(store="rows")
    stream.group_by_key().count()
    driver = Driver(builder.build())
    driver.send_all([DriverRecord("in", key, value, 1) for key, value in [(None, "a"), ("k", None), ("k", "b")]])
    assert driver.dropped() == {"null key": 1, "null key or value": 2}


@pytest.mark.parametrize("how", ["join", "left_join", "outer_join"])
@pytest.mark.parametrize("chunk", [1, 2, 10_000])
def test_a_row_too_old_for_its_own_side_of_a_stream_join_is_counted_as_late(how: str, chunk: int) -> None:
    """Stream time of its own side has passed it by the window plus the grace."""
    builder = StreamsBuilder("corner")
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    getattr(left, how)(right, lambda one, other: f"{one} {other}", within=2, grace=1).to("out")
    driver = Driver(builder.build(), chunk=chunk)
    driver.send_all(DriverRecord("left", "k", f"at {time}", time) for time in (10, 5, 6, 15, 10))
    driver.send_all(DriverRecord("right", "k", f"at {time}", time) for time in (9, 4, 10))
    assert driver.dropped() == {"late": 3}


@pytest.mark.parametrize("chunk", [1, 3, 10_000])
def test_drops_are_counted_once_when_a_round_is_repeated_after_a_skip(chunk: int) -> None:
    """This holds for the records before the skipped one, and for what it would have dropped itself."""
    builder = StreamsBuilder("corner")
    left = builder.stream("left", key=str, value=str)
    left.join(builder.stream("right", key=str, value=str), lambda one, other: one, within=2).to("out")
    left.map_values(lambda value: {"good": value}[value], value=str).to("checked")
    driver = Driver(builder.build(), chunk=chunk, on_error="skip")
    driver.send("right", "early", key="k", timestamp=-1)
    rows = [(10, "good"), (5, "good"), (11, "good"), (6, "bad"), (7, "good"), (12, "good")]
    driver.send_all(DriverRecord("left", "k", value, time) for time, value in rows)
    assert driver.dropped() == {"late": 2, "negative timestamp": 1}
    assert driver.worker.metrics().dropped == driver.dropped()


class History(Processor):
    def process(self, record: Record) -> None:
        rows = self.context.get_state_store("history")
        if record.value == "delete":
            rows.delete(record.key, record.timestamp)
        else:
            rows.put(record.key, record.value, record.timestamp)


def test_a_version_older_than_the_history_is_counted_as_dropped() -> None:
    builder = StreamsBuilder("corner")
    store = versioned_store("history", key=str, value=str, history=10)
    builder.stream("in", key=str, value=str).process(History, stores=[store])
    driver = Driver(builder.build())
    for time, value in ((20, "a"), (10, "b"), (9, "c"), (9, "delete"), (10, "delete")):
        driver.send("in", value, key="k", timestamp=time)
    assert driver.dropped() == {"expired": 2}


def test_out_of_order_updates_of_a_grouped_versioned_table_are_counted() -> None:
    builder = StreamsBuilder("corner")
    table = builder.table("in", key=str, value=str, versioned=10)
    table.group_by(lambda key, value: (value, key), key=str).count().to_stream().to("out")
    driver = Driver(builder.build())
    for time, value in ((20, "a"), (15, "b"), (21, "c"), (10, "d")):
        driver.send("in", value, key="k", timestamp=time)
    assert driver.dropped() == {"out of order": 1, "older than the history": 1}
    assert driver.read("out") == [("a", 1), ("a", 0), ("c", 1)]


class Ticking(Processor):
    """Put and forward in a punctuation."""

    clock: Clock = "stream_time"

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.rows = context.get_state_store("rows")
        context.schedule(100, self.clock, self.tick)

    def process(self, record: Record) -> None:
        self.key = record.key

    def tick(self, time: int) -> None:
        self.rows.put("at", "tick")
        self.context.forward(Record(self.key, str(self.context.record_metadata()), time))


def test_a_put_in_a_punctuation_has_the_time_of_the_punctuation() -> None:
    builder = StreamsBuilder("corner")
    store = key_value_store("rows", key=str, value=str, timestamped=True)
    ticking = type("Ticking", (Ticking,), {"clock": "wall_clock"})
    builder.stream("in", key=str, value=str).process(ticking, stores=[store]).to("out")
    driver = Driver(builder.build())
    driver.send("in", "v", key="k", timestamp=50)
    driver.advance(wall_clock_ms=340)
    assert [record[1:4] for record in driver.records("out")] == [("k", "None", 340)]
    assert driver.store("rows").get_with_timestamp("at") == ("tick", 340)


def test_a_punctuation_cannot_forward_with_a_fixed_key() -> None:
    builder = StreamsBuilder("corner")
    builder.stream("in", key=str, value=str).process_values(
        Ticking, stores=[key_value_store("rows", key=str, value=str)]
    ).to("out")
    with pytest.raises(StepError, match="process_values forwarded key 'k'"):
        Driver(builder.build()).send("in", "v", key="k", timestamp=1)


def test_a_failure_rolls_back_to_the_last_commit_and_no_further() -> None:
    """This includes times, schedules and positions: nothing that was committed is repeated."""
    builder = StreamsBuilder("corner")
    seen: list[Any] = []
    stream = builder.stream("in", key=str, value=str).process(
        Ticking, stores=[key_value_store("rows", key=str, value=str)]
    )
    stream.peek(lambda key, value: seen.append(key)).to("out")
    builder.stream("bad", key=str, value=int).map_values(lambda value: 1 // value).for_each(lambda key, value: None)
    driver = Driver(builder.build(), on_error="skip")
    for time in (150, 160, 170):
        driver.send("in", "v", key=str(time), timestamp=time)
    driver.send("bad", 0, key="x", timestamp=180)
    driver.send("in", "v", key="190", timestamp=190)
    driver.send("in", "v", key="210", timestamp=210)
    assert [record[1:4:2] for record in driver.records("out")] == [("150", 150), ("210", 210)]
    assert seen == ["150", "210"]


def test_a_skipped_record_advances_the_partition() -> None:
    builder = StreamsBuilder("corner")
    builder.stream("in", key=str, value=int).map_values(lambda value: 1 // value).to("out")
    driver = Driver(builder.build(), on_error="skip")
    driver.send_all([DriverRecord("in", "k", value, 1) for value in (1, 0)])
    driver.crash()
    driver.restart()
    assert (driver.read("out"), driver.worker.skipped) == ([("k", 1)], 0)


def test_inputs_wait_for_records_that_a_poll_did_not_return() -> None:
    """Eight topics, more than one poll reads: the lowest timestamps still come first."""
    builder = StreamsBuilder("corner")
    topics = [f"in-{number}" for number in range(8)]
    builder.stream(*topics, value=int).to("out")
    driver = Driver(builder.build(), chunk=2)
    for number, topic in enumerate(topics):
        times = range(10 * number, 10 * number + 10)
        values = [time.to_bytes(8) for time in times]
        driver.log.append(TopicPartition(topic, 0), Columns([None] * len(times), [*values], [*times]))
    driver.run()
    assert [value for _, value in driver.read("out")] == [*range(80)]
