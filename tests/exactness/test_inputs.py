"""Several inputs of a task are processed in timestamp order, however little is read at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo import StreamsBuilder, Topology
from streamtopo.testing import Driver, DriverRecord


def merged() -> Topology:
    builder = StreamsBuilder("inputs")
    builder.stream("a", value=int).merge(builder.stream("b", value=int)).to("out")
    return builder.build()


def rows(topic: str, *times: int) -> list[DriverRecord]:
    return [DriverRecord(topic, None, time, time) for time in times]


@pytest.mark.parametrize("chunk", [1, 2, 3, 10_000])
def test_the_lowest_first_record_comes_first(chunk: int) -> None:
    driver = Driver(merged(), chunk=chunk)
    driver.send_all(rows("a", 10, 20, 30) + rows("b", 25, 35, 45))
    assert [value for _, value in driver.read("out")] == [10, 20, 25, 30, 35, 45]


@pytest.mark.parametrize("chunk", [1, 2, 3, 10_000])
def test_only_first_records_are_compared_and_partitions_keep_offset_order(chunk: int) -> None:
    driver = Driver(merged(), chunk=chunk)
    driver.send_all(rows("a", 1, 3, 5, 2, 4) + rows("b", 2, 4, 6))
    assert [value for _, value in driver.read("out")] == [1, 2, 3, 4, 5, 2, 4, 6]


def greedy(queues: list[list[int]]) -> list[int]:
    """Take one record at a time: the lowest first record; the first queue wins a tie."""
    taken = []
    while any(queues):
        queue = min((queue for queue in queues if queue), key=lambda queue: queue[0])
        taken.append(queue.pop(0))
    return taken


@given(a=st.lists(st.integers(0, 30)), b=st.lists(st.integers(0, 30)), chunk=st.sampled_from([1, 2, 3, 7, 10_000]))
def test_any_poll_size_gives_the_order_of_single_records(a: list[int], b: list[int], chunk: int) -> None:
    driver = Driver(merged(), chunk=chunk)
    driver.send_all(rows("a", *a) + rows("b", *b))
    assert [value for _, value in driver.read("out")] == greedy([list(a), list(b)])


def test_an_input_without_records_does_not_block_the_others() -> None:
    driver = Driver(merged())
    driver.send("a", 5, timestamp=5)
    assert driver.read("out") == [(None, 5)]


def test_each_topic_of_one_source_is_a_separate_input() -> None:
    builder = StreamsBuilder("inputs")
    builder.stream("a", "b", value=int).to("out")
    driver = Driver(builder.build(), chunk=2)
    driver.send_all(rows("a", 1, 4, 6) + rows("b", 2, 3, 5))
    assert [value for _, value in driver.read("out")] == [1, 2, 3, 4, 5, 6]


def test_a_timestamp_function_gives_the_records_time() -> None:
    builder = StreamsBuilder("inputs")
    first = builder.stream("a", value=int, timestamp=lambda _, value: value)
    first.merge(builder.stream("b", value=int, timestamp=lambda _, value: 10 - value)).to("out")
    driver = Driver(builder.build())
    driver.send_all([DriverRecord(topic, None, value, 0) for topic in "ab" for value in (1, 8)])
    assert [(record.value, record.timestamp) for record in driver.records("out")] == [(1, 1), (8, 8), (1, 9), (8, 2)]


def test_a_negative_time_drops_the_record_and_counts_it() -> None:
    builder = StreamsBuilder("inputs")
    builder.stream("a", value=int, timestamp=lambda _, value: value).to("out")
    driver = Driver(builder.build())
    for value in (-1, 7):
        driver.send("a", value)
    assert driver.read("out") == [(None, 7)]
    assert driver.dropped() == {"negative timestamp": 1}
