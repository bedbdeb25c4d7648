"""Rows that are forwarded because time moves may fail: then that is not the fault of the record that moves it."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import Processor, Record, StreamsBuilder, Windows
from streamtopo.dsl.tables.suppress import until_window_closes
from streamtopo.errors import StepError
from streamtopo.testing import Driver, DriverRecord
from streamtopo.timestamps import Timestamp


def not_two(value: Any) -> Any:
    if value == 2:
        raise ValueError("two")
    return value


def windows(suppressed: bool) -> StreamsBuilder:
    """The number of records in each window, once it closes; a step after it fails for two."""
    builder = StreamsBuilder("counts")
    emit = "on_update" if suppressed else "on_close"
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    counts = grouped.windowed_by(Windows.tumbling("10ms"), emit=emit).count(name="counts")
    table = counts.suppress(until_window_closes()) if suppressed else counts
    stream = table.to_stream().map_values(not_two, value=int)
    stream.map(lambda window, count: (window.key, [window.start, count]), key=str, value=list).to("out")
    return builder


def send(driver: Driver, *times: int) -> None:
    for time in times:
        driver.send("in", 1, key="k", timestamp=time)


@pytest.mark.parametrize("suppressed", [False, True])
@pytest.mark.parametrize("chunk", [1, 100])
@pytest.mark.parametrize("answer", ["skip", "dead_letter"])
def test_a_window_whose_result_fails_is_left_out_alone(suppressed: bool, chunk: int, answer: str) -> None:
    driver = Driver(windows(suppressed), on_error=answer, chunk=chunk)
    send(driver, 1, 11, 12, 21, 31, 32, 33, 41)
    assert driver.read("out") == [("k", [0, 1]), ("k", [20, 1]), ("k", [30, 3])]
    metrics = driver.worker.metrics()
    assert metrics.skipped + metrics.dead_letters == 1
    for letter in driver.dead_letters():
        call = dict(letter.headers)["__streamtopo.errors.call"] or b""
        assert b"what is due at the time of a record" in call
        assert b"value 2" in call


def test_it_stops_the_worker_and_nothing_is_lost() -> None:
    driver = Driver(windows(suppressed=False))
    with pytest.raises(StepError, match=r"task 0_0, what is due at the time of a record.*two"):
        send(driver, 1, 11, 12, 21)
    assert driver.read("out") == [("k", [0, 1])]
    driver.crash()
    skipping = Driver(windows(suppressed=False), log=driver.log, on_error="skip")
    send(skipping, 31)
    assert skipping.read("out") == [("k", [0, 1]), ("k", [20, 1])]
    assert skipping.worker.skipped == 1


def test_records_without_a_partner_that_fail_are_left_out_alone() -> None:
    def joiner(left: int | None, right: int | None) -> int:
        return not_two(left) if right is None else (left or 0) + right

    builder = StreamsBuilder("joined")
    left, right = (builder.stream(name, key=str, value=int) for name in ("left", "right"))
    left.left_join(right, joiner, within=10, value=int).to("out")
    driver = Driver(builder, on_error="dead_letter")
    for number, time in [(1, 0), (2, 20), (3, 40), (4, 60)]:
        driver.send("left", number, key="k", timestamp=time)
    driver.send("right", 10, key="k", timestamp=60)
    assert [value for _, value in driver.read("out")] == [1, 3, 14]
    assert len(driver.dead_letters()) == 1


def test_the_record_that_moves_time_may_fail_too() -> None:
    builder = StreamsBuilder("counts")
    stream = builder.stream("in", key=str, value=int)
    counts = stream.group_by_key().windowed_by(Windows.tumbling("10ms"), emit="on_close").count(name="counts")
    counts.to_stream().map(lambda window, count: (window.key, not_two(count)), key=str, value=int).to("out")
    stream.map_values(not_two).to("also")
    driver = Driver(builder, on_error="dead_letter")
    for value, time in [(1, 0), (1, 1), (2, 10), (1, 20), (1, 30)]:
        driver.send("in", value, key="k", timestamp=time)
    assert driver.read("also") == [("k", 1)] * 4
    assert driver.read("out") == [("k", 1)]
    assert len(driver.dead_letters()) == 2


class Unwritable(dict[str, Any]):
    def __repr__(self) -> str:
        raise RuntimeError("there is no text")


def test_rows_that_look_alike_are_counted_one_by_one() -> None:
    def fail(value: Any) -> int:
        raise ValueError("always")

    builder = StreamsBuilder("counts")
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    counts = grouped.windowed_by(Windows.tumbling("10ms"), emit="on_close").count(name="counts").to_stream()
    alike = counts.map(lambda window, count: ("same", Unwritable()), key=str, value=dict)
    alike.map_values(fail, value=int).to("out")
    driver = Driver(builder, on_error="dead_letter")
    driver.send_all([DriverRecord("in", key, 1, time) for key, time in [("a", 0), ("b", 0), ("a", 10), ("a", 20)]])
    assert (driver.worker.metrics().dead_letters, len(driver.dead_letters())) == (3, 3)


# -- records that fail do not move any time


def test_tasks_after_a_repartition_do_not_hear_of_their_times() -> None:
    builder = StreamsBuilder("counts")
    stream = builder.stream("in", key=str, value=int).map_values(not_two)
    windows = stream.group_by(lambda key, value: "all", key=str).windowed_by(Windows.tumbling("10ms"), emit="on_close")
    counts = windows.count(name="counts").to_stream()
    counts.map(lambda window, count: (window.key, [window.start, count]), key=str, value=list).to("out")
    driver = Driver(builder, on_error="skip", partitions=2, origin_idle="1h")
    for value, time, partition in [(1, 1, 0), (2, 1000, 0), (1, 1, 1), (1, 50, 1), (1, 5, 0), (1, 60, 0), (1, 60, 1)]:
        driver.send("in", value, key="k", timestamp=time, partition=partition)
    assert driver.read("out") == [("all", [0, 3]), ("all", [50, 1])]


def test_the_time_of_their_partition_stays() -> None:
    builder = StreamsBuilder("times")
    at = Timestamp("at", invalid="partition_time")
    builder.stream("in", value=dict, timestamp=at).peek(lambda key, value: not_two(value["number"])).to("out")
    driver = Driver(builder, on_error="skip")
    for number, time in [(1, 10), (2, 1000), (3, -1)]:
        driver.send("in", {"number": number, "at": time})
    assert [record.timestamp for record in driver.records("out")] == [10, 10]


class Times(Processor):
    """Adds the stream time that it sees."""

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value([record.value, self.context.current_stream_time_ms()]))


def test_processors_see_the_time_of_a_record_that_closes_a_window_whose_result_fails() -> None:
    builder = StreamsBuilder("counts")
    stream = builder.stream("in", key=str, value=int)
    counts = stream.group_by_key().windowed_by(Windows.tumbling("10ms"), emit="on_close").count(name="counts")
    counts.to_stream().map(lambda window, count: (window.key, not_two(count)), key=str, value=int).to("out")
    stream.process_values(Times, value=list).to("times")
    driver = Driver(builder, on_error="skip")
    send(driver, 1, 11, 12, 25)
    assert [value for _, value in driver.read("times")] == [[1, 1], [1, 11], [1, 12], [1, 25]]


def test_processors_do_not_see_their_times_if_a_function_that_chooses_the_topic_has_seen_the_records() -> None:
    def choose(key: str, value: int, context: Any) -> str:
        not_two(value)
        return "out"

    builder = StreamsBuilder("times")
    stream = builder.stream("in", key=str, value=int)
    stream.to(choose)
    stream.process_values(Times, value=list).to("times")
    driver = Driver(builder, on_error="skip")
    driver.send_all([DriverRecord("in", "k", value, time) for value, time in [(1, 10), (2, 1000), (3, 20)]])
    assert [value for _, value in driver.read("times")] == [[1, 10], [3, 20]]


def test_the_node_that_failed_is_named_also_if_records_pass_nodes_one_by_one() -> None:
    builder = StreamsBuilder("counts")
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    counts = grouped.windowed_by(Windows.tumbling("10ms"), emit="on_close").count(name="counts").to_stream()
    counts.map_values(abs).map_values(not_two, name="check").map(lambda w, v: (w.key, v), key=str, value=int).to("out")
    driver = Driver(builder, on_error="dead_letter", depth_first=True)
    send(driver, 1, 11, 12, 21, 31)
    assert driver.read("out") == [("k", 1), ("k", 1)]
    assert [dict(letter.headers)["__streamtopo.errors.node"] for letter in driver.dead_letters()] == [b"check"]
