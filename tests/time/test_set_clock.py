"""Waits take as long as they should when the wall clock of the machine is set meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import StreamsBuilder, Topology, Windows, Worker
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.testing import Driver

HOUR = 3_600_000


def closing(*, repartitioned: bool = True) -> Topology:
    """Windows of a second that come out when they close."""
    builder = StreamsBuilder("closing")
    users = builder.stream("in", key=str, value=str)
    if repartitioned:
        users = users.select_key(lambda _, user: user, key=str)
    counts = users.group_by_key().windowed_by(Windows.tumbling("1s"), emit="on_close").count()
    counts.to_stream(lambda window, _: window.key, key=str).to("out")
    return builder.build()


def merged() -> Topology:
    builder = StreamsBuilder("merged")
    builder.stream("in", value=str).merge(builder.stream("other", value=str)).to("out")
    return builder.build()


class Machine:
    """A worker, its log, and both clocks of the machine: the wall clock may be set."""

    def __init__(self, topology: Topology, **options: Any) -> None:
        self.wall, self.steady = 10 * HOUR, 0
        self.log = MemoryLog()
        for topic in ("in", "other", "out"):
            self.log.create(Topic(topic, 2))
        self.worker = Worker(
            topology,
            self.log,
            lambda *_: MemoryStore(),
            now=lambda: self.wall,
            steady=lambda: self.steady,
            commit_pause=0,
            **options,
        )

    def send(self, time: int, partition: int = 0) -> None:
        self.log.append(TopicPartition("in", partition), Columns([b"ann"], [b"ann"], [time]))
        self.work()

    def wait(self, milliseconds: int, *, set_by: int = 0) -> None:
        """The wall clock is also set meanwhile, by so much."""
        self.steady += milliseconds
        self.wall += milliseconds + set_by
        self.work()

    def work(self) -> None:
        for _ in range(3):
            while self.worker.run_once():
                pass

    @property
    def out(self) -> int:
        return sum(len(self.log.read(TopicPartition("out", n), 0, 100).columns.keys) for n in range(2))


@pytest.mark.parametrize("set_by", [-HOUR, HOUR])
def test_a_silent_partition_is_waited_for_by_a_clock_that_is_never_set(set_by: int) -> None:
    machine = Machine(closing(), origin_idle="500ms")
    machine.send(1_000, partition=1)
    for time in (1_000, 60_000):
        machine.send(time)
    machine.wait(400, set_by=set_by)
    assert machine.out == 0
    machine.wait(100)
    assert machine.out == 1


@pytest.mark.parametrize("set_by", [-HOUR, HOUR])
def test_an_empty_input_is_waited_for_by_a_clock_that_is_never_set(set_by: int) -> None:
    machine = Machine(merged(), max_task_idle="1s")
    machine.send(1_000)
    machine.wait(900, set_by=set_by)
    assert machine.out == 0
    machine.wait(100)
    assert machine.out == 1


@pytest.mark.parametrize("set_by", [-HOUR, HOUR])
def test_time_moves_on_without_records_as_long_as_they_did_not_come(set_by: int) -> None:
    machine = Machine(closing(repartitioned=False), idle_advance="10s")
    machine.send(1_500)
    machine.wait(9_900, set_by=set_by)
    assert machine.out == 0
    machine.wait(100)
    assert machine.out == 1


def test_what_time_waits_for_is_shown_with_the_time_of_day() -> None:
    machine = Machine(closing(), origin_idle="1h")
    machine.send(1_000, partition=1)
    for time in (1_000, 60_000):
        machine.send(time)
    machine.wait(5_000, set_by=-HOUR)
    assert [held.since for held in machine.worker.metrics().held_back] == [machine.wall - 5_000]


def test_in_a_driver_the_clock_may_be_set_back_too() -> None:
    driver = Driver(closing(), partitions=2, origin_idle="500ms", wall_clock_ms=10 * HOUR)
    for partition, time in ((1, 1_000), (0, 1_000), (0, 60_000)):
        driver.send("in", "ann", timestamp=time, partition=partition)
    driver.advance(wall_clock_ms=-HOUR)
    driver.advance(wall_clock_ms=499)
    assert driver.read("out") == []
    driver.advance(wall_clock_ms=1)
    assert driver.read("out") == [("ann", 2)]
