"""Idle inputs with `idle_advance`: stream time follows the wall clock, and the last windows close."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamtopo import (
    KStream,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    Topology,
    Windows,
    Worker,
    until_time_limit,
    until_window_closes,
)
from streamtopo.errors import StepError
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.testing import Driver

Rows = list[tuple[Any, Any, int]]


class Ticks(Processor):
    """A processor that reports its call for each second of stream time."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        context.schedule("1s", "stream_time", self._tick)

    def _tick(self, time: int) -> None:
        self._context.forward(Record("tick", time, time))

    def process(self, record: Record) -> None:
        pass


def tumbling(stream: KStream) -> KStream:
    windows = Windows.tumbling("10s", grace="1s")
    return stream.group_by_key().windowed_by(windows, emit="on_close").count().to_stream(lambda key, _: key[0], key=str)


def sliding(stream: KStream) -> KStream:
    windows = Windows.sliding("5s")
    return stream.group_by_key().windowed_by(windows, emit="on_close").count().to_stream(lambda key, _: key[0], key=str)


def sessions(stream: KStream) -> KStream:
    windows = Windows.session("5s")
    return stream.group_by_key().windowed_by(windows, emit="on_close").count().to_stream(lambda key, _: key[0], key=str)


def sessions_of_a_moment(stream: KStream) -> KStream:
    windows = Windows.session("30ms")
    return stream.group_by_key().windowed_by(windows, emit="on_close").count().to_stream(lambda key, _: key[0], key=str)


def suppressed(stream: KStream) -> KStream:
    table = stream.group_by_key().windowed_by(Windows.tumbling("10s")).count()
    return table.suppress(until_window_closes()).to_stream(lambda key, _: key[0], key=str)


def held(stream: KStream) -> KStream:
    return stream.to_table().suppress(until_time_limit("10s")).to_stream()


def left_join(stream: KStream) -> KStream:
    nothing = stream.filter(lambda key, value: False)
    return stream.left_join(nothing, lambda one, other: f"{one} {other}", within="4s")


def waiting_for_a_table(stream: KStream) -> KStream:
    table = stream.filter(lambda key, value: False).to_table(store="rows", versioned="1h")
    return stream.left_join(table, lambda one, row: f"{one} {row}", grace="5s")


def outer_join(stream: KStream) -> KStream:
    nothing = stream.filter(lambda key, value: False)
    return nothing.outer_join(stream, lambda one, other: f"{one} {other}", within="4s")


def closed_twice(stream: KStream) -> KStream:
    """The second window waits for as long as its grace, so that results of the first are not late for it."""
    first = stream.group_by_key().windowed_by(Windows.tumbling("10s", grace="1s"), emit="on_close").count()
    windows = Windows.tumbling("20s", grace="10s")
    table = first.to_stream().group_by_key().windowed_by(windows, emit="on_close").count()
    return table.to_stream(lambda key, _: key[0][0], key=str)


def ticks(stream: KStream) -> KStream:
    return stream.process(Ticks, key=str, value=int)


SHAPES: dict[Callable[[KStream], KStream], tuple[int, Rows]] = {
    tumbling: (8_000, [("a", 1, 13_000)]),
    sliding: (1, [("a", 1, 13_000)]),
    sessions: (5_001, [("a", 1, 13_000)]),
    suppressed: (7_000, [("a", 1, 13_000)]),
    held: (10_000, [("a", "x", 13_000)]),
    left_join: (4_001, [("a", "x None", 13_000)]),
    outer_join: (4_001, [("a", "None x", 13_000)]),
    waiting_for_a_table: (5_000, [("a", "x None", 13_000)]),
    closed_twice: (17_000, [("a", 1, 13_000)]),
    ticks: (1_000, [("tick", 14_499, 14_499)]),
}
"""The output for one record at 13 s, and after how many milliseconds it comes."""


def topology(shape: Callable[[KStream], KStream]) -> Topology:
    builder = StreamsBuilder("idle")
    shape(builder.stream("in", key=str, value=str)).to("out")
    return builder.build()


def rows(driver: Driver) -> Rows:
    return [(one.key, one.value, one.timestamp) for one in driver.records("out")]


@pytest.mark.parametrize("depth_first", [False, True])
@pytest.mark.parametrize("cache", [0, 10_000_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_pending_results_are_emitted_when_the_input_is_idle(
    shape: Callable[[KStream], KStream], cache: int, depth_first: bool
) -> None:
    wait, wanted = SHAPES[shape]
    driver = Driver(topology(shape), wall_clock_ms=77, cache=cache, depth_first=depth_first, idle_advance=500)
    driver.send("in", "x", key="a", timestamp=13_000)
    rows(driver)
    driver.advance(wall_clock_ms=wait - 1)
    assert rows(driver) == []
    driver.advance(wall_clock_ms=500)
    assert rows(driver) == wanted
    driver.advance(wall_clock_ms=500)
    assert rows(driver) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_without_idle_advance_stream_time_does_not_move(shape: Callable[[KStream], KStream]) -> None:
    driver = Driver(topology(shape))
    driver.send("in", "x", key="a", timestamp=13_000)
    rows(driver)
    driver.advance(wall_clock_ms=10_000_000)
    assert rows(driver) == []


def test_a_record_restarts_the_wait_and_a_task_without_records_does_not_move() -> None:
    driver = Driver(topology(ticks), idle_advance="1s")
    driver.advance(wall_clock_ms=5_000)
    assert rows(driver) == []
    for time in (100, 200, 300):
        driver.send("in", "x", key="a", timestamp=time)
        driver.advance(wall_clock_ms=999)
    assert rows(driver) == [("tick", 100, 100)]
    driver.advance(wall_clock_ms=1)
    assert rows(driver) == [("tick", 1_300, 1_300)]


@pytest.mark.parametrize("crash", [False, True])
def test_the_advanced_time_is_committed(crash: bool) -> None:
    """Records late before a restart are late after it, and emitted results are not emitted again."""
    driver = Driver(topology(tumbling), idle_advance="1s")
    driver.send("in", "x", key="a", timestamp=13_000)
    driver.advance(wall_clock_ms=9_000)
    assert rows(driver) == [("a", 1, 13_000)]
    if crash:
        driver.crash()
    driver.restart()
    driver.send("in", "x", key="a", timestamp=14_000)
    assert driver.dropped() == {"late": 1}
    driver.advance(wall_clock_ms=20_000)
    assert rows(driver) == []


def test_an_error_says_that_the_task_was_idle() -> None:
    def fail(value: int) -> int:
        raise ValueError(value)

    driver = Driver(topology(lambda stream: tumbling(stream).map_values(fail)), idle_advance=500)
    driver.send("in", "x", key="a", timestamp=13_000)
    with pytest.raises(StepError, match="task 0_0, idle until stream time 21000"):
        driver.advance(wall_clock_ms=8_000)


def test_a_row_that_fails_in_an_idle_task_is_left_out_alone() -> None:
    def fail(value: int) -> int:
        if value == 2:
            raise ValueError(value)
        return value

    driver = Driver(topology(lambda s: tumbling(s).map_values(fail)), idle_advance=500, on_error="skip")
    for key in ("a", "b", "b"):
        driver.send("in", "x", key=key, timestamp=13_000)
    driver.advance(wall_clock_ms=8_000)
    assert (rows(driver), driver.worker.skipped) == ([("a", 1, 13_000)], 1)


def test_a_worker_closes_the_last_window_by_itself(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log")
    for name in ("in", "out"):
        log.create(Topic(name, 1))
    log.append(TopicPartition("in", 0), Columns([b"a"], [b"x"], [13_000]))
    worker = Worker(topology(sessions_of_a_moment), log, state_dir=str(tmp_path / "state"), idle_advance="20ms")
    out = TopicPartition("out", 0)
    while log.end(out) == log.start(out):
        worker.run_once(0.01)
    worker.close()
    assert log.read(out, 0, 1 << 20).columns.keys == [b"a"]
    log.close()
