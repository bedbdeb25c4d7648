"""Records that are tried again: each has its own number of attempts, whatever fails, and whenever that shows."""

from __future__ import annotations

from typing import Any

from streamtopo import Serde, StreamsBuilder, Worker, retry
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.testing import Driver, DriverRecord


class Registry:
    """Decodes text, except what it does not know at the moment."""

    def __init__(self, *unknown: str) -> None:
        self.unknown = set(unknown)

    def __call__(self, data: bytes) -> str:
        if (text := data.decode()) in self.unknown:
            raise ConnectionError(f"{text} is not known")
        return text

    @property
    def serde(self) -> Serde:
        return Serde("registry", str.encode, self)


def values(driver: Driver) -> list[Any]:
    return [value for _, value in driver.read("out")]


def test_each_record_that_is_not_decoded_has_its_own_attempts() -> None:
    registry = Registry("a", "b")
    builder = StreamsBuilder("texts")
    builder.stream("in", value=registry.serde).to("out", value=str)
    driver = Driver(builder, on_error=retry(2, backoff="1s", then="skip"))
    driver.send_bytes("in", b"a")
    driver.send_bytes("in", b"b")
    driver.advance(wall_clock_ms=1000)
    registry.unknown = {"b"}
    driver.advance(wall_clock_ms=2000)
    assert values(driver) == ["a"]
    driver.advance(wall_clock_ms=1000)
    registry.unknown = set()
    driver.advance(wall_clock_ms=2000)
    assert (values(driver), driver.worker.skipped) == (["b"], 0)


def test_the_last_record_that_is_not_decoded_is_committed() -> None:
    builder = StreamsBuilder("texts")
    builder.stream("in", value=Registry("a").serde).to("out", value=str)
    driver = Driver(builder, on_error=retry(1, backoff="1s", then="dead_letter"))
    driver.send_bytes("in", b"a")
    driver.advance(wall_clock_ms=1000)
    assert [letter.value for letter in driver.dead_letters()] == [b"a"]
    assert driver.worker.metrics().records == 1


def test_attempts_end_if_a_failure_shows_only_when_the_cache_is_flushed() -> None:
    def no_three(value: int) -> int:
        if value == 3:
            raise ConnectionError("three")
        return value

    builder = StreamsBuilder("sums")
    sums = (
        builder.stream("in", key=str, value=int).group_by_key().reduce(lambda total, value: total + value, name="sums")
    )
    sums.to_stream().map_values(no_three).to("out")
    driver = Driver(builder, on_error=retry(2, backoff="1s", then="skip"), cache=100_000)
    driver.send("in", 1, key="k")
    driver.send_all([DriverRecord("in", "k", 2, 0), DriverRecord("in", "other", 4, 0)])
    for _ in range(5):
        driver.advance(wall_clock_ms=10_000)
    assert (driver.worker.skipped, values(driver)) == (1, [1, 4])
    assert driver.store("sums").get("k") == 1


def test_a_record_waits_if_it_cannot_be_decoded_again() -> None:
    """The round is repeated because of another record, and then the service does not answer."""
    registry = Registry()
    failed: list[str] = []

    def no_x(text: str) -> str:
        if text == "x":
            registry.unknown = set() if failed else {"a"}
            failed.append(text)
            raise ValueError("x")
        return text

    builder = StreamsBuilder("texts")
    stream = builder.stream("in", key=str, value=registry.serde, on_error=retry(3, backoff="1s"))
    stream.map_values(no_x, on_error="skip").to("out", value=str)
    driver = Driver(builder)
    driver.send_all([DriverRecord("in", "k", text, 0) for text in ("a", "x", "b")])
    driver.advance(wall_clock_ms=1000)
    assert values(driver) == []
    registry.unknown = set()
    driver.advance(wall_clock_ms=2000)
    assert (values(driver), driver.worker.skipped) == (["a", "b"], 1)


def test_a_worker_that_starts_waits_for_a_global_table_and_stays_in_its_group() -> None:
    builder = StreamsBuilder("texts")
    table = builder.global_table(
        "rows", key=str, value=Registry("b").serde, on_error=retry(1, backoff="1h", then="skip")
    )
    builder.stream("in", key=str, value=str).join(table, lambda key, _: key, lambda _, row: row).to("out", value=str)
    log, clock = MemoryLog(), [0]
    for topic in ("rows", "in", "out"):
        log.create(Topic(topic, 1))
    log.append(TopicPartition("rows", 0), Columns([b"k", b"k"], [b"a", b"b"], [0, 1]))
    log.append(TopicPartition("in", 0), Columns([b"k"], [b"?"], [2]))
    worker = Worker(builder, log, lambda stores, partition: MemoryStore(), steady=lambda: clock[0])
    assert not all(worker.run_once() for _ in range(20))
    assert (worker.begun, len(worker.member.assignment()), worker.tasks) == (False, 1, {})
    clock[0] = 3_600_000
    while worker.run_once():
        pass
    assert log.read(TopicPartition("out", 0), 0, 10).columns.values == [b"a"]
    assert (worker.begun, worker.skipped) == (True, 1)
    worker.close()
