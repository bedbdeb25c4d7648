"""What a task remembers besides its stores survives a crash: its time, its clocks, its schedules."""

from __future__ import annotations

import pytest

from streamtopo import Processor, ProcessorContext, Record, StreamsBuilder, Topology
from streamtopo.errors import FingerprintError
from streamtopo.testing import Driver, DriverRecord


class Times(Processor):
    def init(self, context: ProcessorContext) -> None:
        self.context = context
        context.schedule(100, "stream_time", lambda time: context.forward(Record(None, time, time)))

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(self.context.current_stream_time_ms()))


def timed() -> Topology:
    builder = StreamsBuilder("restart")
    builder.stream("a", value=int).merge(builder.stream("b", value=int)).process(Times, value=int).to("out")
    return builder.build()


def run(crash_before: int | None) -> list[int]:
    driver = Driver(timed())
    for place, (topic, time) in enumerate([("a", 5), ("b", 120), ("a", 80), ("a", 199), ("b", 200), ("b", 150)]):
        if place == crash_before:
            driver.crash()
            driver.restart()
        driver.send(topic, 0, timestamp=time)
    return [value for _, value in driver.read("out")]


@pytest.mark.parametrize("crash_before", range(6))
def test_time_and_punctuation_continue_where_they_were(crash_before: int) -> None:
    assert run(crash_before) == run(None) == [5, 5, 120, 120, 120, 199, 200, 200, 200]


def test_a_cancelled_schedule_stays_cancelled() -> None:
    class Once(Processor):
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            self.schedule = context.schedule(10, "stream_time", self.fire)

        def fire(self, time: int) -> None:
            fired.append(time)
            self.schedule.cancel()

    fired: list[int] = []
    builder = StreamsBuilder("restart")
    builder.stream("in").process(Once)
    driver = Driver(builder.build())
    driver.send("in", b"", timestamp=10)
    driver.crash()
    driver.restart()
    driver.send("in", b"", timestamp=50)
    assert fired == [10]


def test_a_wall_clock_schedule_starts_again() -> None:
    class Tick(Processor):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(10, "wall_clock", fired.append)

    fired: list[int] = []
    builder = StreamsBuilder("restart")
    builder.stream("in").process(Tick)
    driver = Driver(builder.build())
    driver.advance(wall_clock_ms=10)
    driver.crash()
    driver.advance(wall_clock_ms=7)
    driver.restart()
    driver.advance(wall_clock_ms=9)
    driver.advance(wall_clock_ms=1)
    assert fired == [10, 27]


def test_processing_continues_at_the_committed_offset() -> None:
    builder = StreamsBuilder("restart")
    builder.stream("in", value=str).to("out")
    driver = Driver(builder.build(), partitions=3)
    for number in range(9):
        driver.send("in", str(number), partition=number % 3)
        driver.crash()
        driver.restart()
    assert sorted(value for _, value in driver.read("out")) == [str(number) for number in range(9)]


def test_a_topology_that_no_longer_fits_its_state_is_refused() -> None:
    def counting(name: str, value: type = str) -> Topology:
        builder = StreamsBuilder("restart")
        builder.stream("in", key=str, value=value).group_by_key().reduce(lambda row, _: row, name=name)
        return builder.build()

    driver = Driver(counting("rows"))
    driver.send_all([DriverRecord("in", "k", "v", 0)])
    driver.close()
    with pytest.raises(FingerprintError, match=r"store rows: timestamped key-value, key str, value str, 1 .* -> gone"):
        Driver(counting("other"), log=driver.log)
    with pytest.raises(FingerprintError, match=r"value str, 1 partitions -> .* value int.*\n.*--accept-changes"):
        Driver(counting("rows", int), log=driver.log)
    assert Driver(counting("rows"), log=driver.log).store("rows").get("k") == "v"
