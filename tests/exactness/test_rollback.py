"""A step that raises leaves nothing behind: whichever row fails, the results are as if it had not been there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from streamtopo import (
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    StreamtopoError,
    Topology,
    Worker,
    key_value_store,
)
from streamtopo.errors import StepError, StoreFailed
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.testing import Driver, DriverRecord

SENT = [DriverRecord("in", key, [number], number * 10) for number, key in enumerate("abcabcabca")]


class Flaky:
    """Raise on one record each time it is seen, after changing it in place."""

    def __init__(self, bad: int | None) -> None:
        self.bad = bad

    def __call__(self, value: Any) -> Any:
        value.append("seen")
        if value[0] == self.bad:
            raise ValueError(f"cannot take {value}")
        return value


class Remember(Processor):
    """Remember values in a store, and schedule calls on stream time."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.rows = context.get_state_store("rows")
        context.schedule(25, "stream_time", lambda time: context.forward(Record("tick", [time], time)))

    def process(self, record: Record) -> None:
        self.rows.put(record.key, [*(self.rows.get(record.key) or []), record.value[0]])
        self.context.forward(record.with_value(self.rows.get(record.key)))


def everything(bad: int | None) -> Topology:
    """Put aggregates, a processor with a store, punctuation and sinks before and after the step that raises."""
    builder = StreamsBuilder("rollback")
    stream = builder.stream("in", key=str, value=list)
    stream.group_by_key().count(name="before").to_stream().map_values(lambda total: [total], value=list).to("out")
    stream.process(Remember, stores=[key_value_store("rows", key=str, value=list)]).to("out")
    passed = stream.map_values(Flaky(bad))
    passed.group_by_key().aggregate(
        list, lambda _, value, row: row.append(value[0]) or row, name="after"
    ).to_stream().to("out")
    passed.to("out")
    return builder.build()


def outcome(driver: Driver) -> tuple[list[DriverRecord], dict[str, list[Any]]]:
    return driver.records("out"), {name: list(driver.store(name).all()) for name in driver.topology.stores}


@pytest.mark.parametrize("cache", [0, 100_000])
@pytest.mark.parametrize("chunk", [3, 10_000])
@pytest.mark.parametrize("bad", range(len(SENT)))
def test_with_skip_a_failed_chunk_equals_a_run_without_the_bad_row(bad: int, chunk: int, cache: int) -> None:
    failing = Driver(everything(bad), on_error="skip", chunk=chunk, cache=cache)
    failing.send_all(SENT)
    undisturbed = Driver(everything(None), chunk=chunk, cache=cache)
    undisturbed.send_all(SENT[:bad] + SENT[bad + 1 :])
    records, stores = outcome(failing)
    expected, rows = outcome(undisturbed)
    assert stores == rows
    if not cache:  # with the cache, what is forwarded depends on when commits happen
        assert records == expected
    assert failing.worker.skipped == 1


@pytest.mark.parametrize("bad", range(len(SENT)))
def test_with_fail_only_what_came_before_is_committed(bad: int) -> None:
    driver = Driver(everything(bad))
    with pytest.raises(StepError, match=rf'offset {bad}: ValueError\("cannot take \[{bad}, '):
        driver.send_all(SENT)
    undisturbed = Driver(everything(None))
    undisturbed.send_all(SENT[:bad])
    assert driver.records("out") == undisturbed.records("out")
    driver.crash()
    repaired = Driver(everything(None), log=driver.log)
    undisturbed.send_all(SENT[bad:])
    assert (driver.records("out"), outcome(repaired)[1]) == outcome(undisturbed)


def test_the_same_record_fails_until_the_cause_is_fixed() -> None:
    driver = Driver(everything(4))
    for attempt in range(3):
        with pytest.raises(StepError, match="in/0 offset 4"):
            driver.send_all(SENT if attempt == 0 else [])


def test_many_bad_rows_are_found_in_one_chunk() -> None:
    builder = StreamsBuilder("rollback")
    builder.stream("in", value=int).map_values(lambda value: 12 // (value % 3)).to("out")
    driver = Driver(builder.build(), on_error="skip")
    driver.send_all(DriverRecord("in", None, value, 0) for value in range(9))
    assert [value for _, value in driver.read("out")] == [12, 6, 12, 6, 12, 6]
    assert driver.worker.skipped == 3


def plus_one(_: str, value: str, row: int) -> Any:
    return row + 1 if value != "bad" else "many"


def test_a_value_of_the_wrong_type_is_found_at_its_record() -> None:
    builder = StreamsBuilder("rollback")
    counted = builder.stream("in", key=str, value=str).group_by_key()
    counted.aggregate(lambda: 0, plus_one, value=int, name="rows")
    for cache in (0, 100_000):
        driver = Driver(builder.build(), cache=cache)
        with pytest.raises(StepError, match=r"in/0 offset 2: .*expected int, got str 'many'"):
            driver.send_all(DriverRecord("in", "k", value, 0) for value in ("a", "b", "bad", "c"))


def test_a_failure_after_the_cache_is_found_at_its_record() -> None:
    builder = StreamsBuilder("rollback")
    counts = builder.stream("in", key=str, value=str).group_by_key().count(name="counts")
    counts.to_stream().map_values(lambda total: 1 // (3 - total)).to("out")
    driver = Driver(builder.build(), cache=100_000)
    with pytest.raises(StepError, match=r"in/0 offset 2: ZeroDivisionError"):
        driver.send_all(DriverRecord("in", "k", "v", 0) for _ in range(3))


@pytest.mark.parametrize("cache", [0, 100_000])
def test_bytes_that_do_not_decode(cache: int) -> None:
    builder = StreamsBuilder("rollback")
    builder.stream("in", key=str, value=dict).to("out")
    driver = Driver(builder.build(), cache=cache)
    driver.send("in", {"fine": 1}, key="k")
    with pytest.raises(StepError, match=r'step "KSTREAM-SOURCE-0000000000" .*failed on in/0 offset 1: .*not JSON'):
        driver.send_bytes("in", b"{", key=b"k")
    assert driver.read("out") == [("k", {"fine": 1})]
    driver.crash()
    skipping = Driver(builder.build(), log=driver.log, on_error="skip", cache=cache)
    skipping.send("in", {"again": 2}, key="k")
    assert driver.read("out") == [("k", {"again": 2})]
    assert skipping.worker.skipped == 1


def test_a_punctuation_that_raises() -> None:
    class Tick(Processor):
        def init(self, context: ProcessorContext) -> None:
            self.context = context
            context.schedule(10, "stream_time", self.tick)
            context.schedule(10, "wall_clock", self.tick)

        def tick(self, time: int) -> None:
            if time == 20:
                raise RuntimeError("no")
            self.context.forward(Record(None, f"tick {time}", time))

    builder = StreamsBuilder("rollback")
    builder.stream("in", value=str).process(Tick).to("out")
    failing = Driver(builder.build())
    failing.send("in", "v", timestamp=10)
    with pytest.raises(StepError, match=r"the punctuation at stream time 20: RuntimeError"):
        failing.send("in", "w", timestamp=20)
    driver = Driver(builder.build(), on_error="skip")
    for time in (10, 20, 30):
        driver.send("in", "v", timestamp=time)
        driver.advance(wall_clock_ms=10)
    ticks = [value for _, value in driver.read("out")]
    assert ticks == ["v", "tick 10", "tick 10", "v", "v", "tick 30", "tick 30"]


def test_processors_are_closed_and_created_again() -> None:
    life: list[str] = []

    class Alive(Processor):
        def init(self, context: ProcessorContext) -> None:
            self.context = context
            life.append("init")

        def process(self, record: Record) -> None:
            life.append(record.value)
            if record.value == "bad":
                raise ValueError("bad")

        def close(self) -> None:
            life.append("close")

    builder = StreamsBuilder("rollback")
    builder.stream("in", value=str).process(Alive)
    driver = Driver(builder.build(), on_error="skip")
    driver.send("in", "bad")
    assert life == ["init", "bad", "close", "init", "bad", "close", "init"]


def test_errors_keep_their_cause() -> None:
    builder = StreamsBuilder("rollback")
    builder.stream("in", value=str).map_values(int).to("out")
    with pytest.raises(StreamtopoError) as caught:
        Driver(builder.build()).send("in", "x")
    assert isinstance(caught.value.__cause__, ValueError)


class Unreadable(MemoryStore):
    """A store on a disk where some rows cannot be read."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if any(key.endswith(b"bad") for key in keys):
            raise StoreFailed("the disk has failed")
        return super().get_many(keys)


def test_an_unreadable_store_does_not_skip_records() -> None:
    builder = StreamsBuilder("rollback")
    builder.stream("in", key=str, value=str).group_by_key().count(name="counts").to_stream().to("out")
    log = MemoryLog()
    for name in ("in", "out"):
        log.create(Topic(name, 1))
    log.append(TopicPartition("in", 0), Columns([b"good", b"bad"], [b"v"] * 2, [0] * 2))
    failing = Worker(builder.build(), log, lambda stores, partition: Unreadable(), on_error="skip")
    with pytest.raises(StoreFailed, match="the disk has failed"):
        work_until(failing, lambda: failing.skipped > 0)
    failing.abandon()
    mended = Worker(builder.build(), log, lambda stores, partition: MemoryStore(), on_error="skip")
    work_until(mended, lambda: log.end(TopicPartition("out", 0)) == 2)
    assert log.read(TopicPartition("out", 0), 0, 10).columns.keys == [b"good", b"bad"]


def work_until(worker: Worker, condition: Callable[[], bool]) -> None:
    while not condition():
        worker.run_once()
