"""fail, skip, dead_letter and retry: for an application, for the worker's options, and as a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamtopo import (
    FailedRecord,
    Processor,
    ProcessorContext,
    Record,
    Serde,
    StreamsBuilder,
    StreamtopoError,
    dead_letter,
    retry,
)
from streamtopo.errors import ConfigError, StepError
from streamtopo.settings.on_error import OnError
from streamtopo.testing import Driver, DriverRecord


def halves(function: Callable[[int], int] = lambda value: 100 // value) -> StreamsBuilder:
    builder = StreamsBuilder("halves")
    builder.stream("in", key=str, value=int).map_values(function).to("out")
    return builder


def driver_of(on_error: OnError | None = None, builder: StreamsBuilder | None = None, **options: Any) -> Driver:
    return Driver(builder or halves(), on_error=on_error, **options)


def send(driver: Driver, *values: int) -> None:
    for number, value in enumerate(values):
        driver.send("in", value, key=f"k{number}")


def values(driver: Driver) -> list[Any]:
    return [value for _, value in driver.read("out")]


def told(driver: Driver) -> list[dict[str, str]]:
    return [{name: (text or b"").decode() for name, text in letter.headers} for letter in driver.dead_letters()]


def test_a_record_that_fails_stops_the_worker_if_nothing_else_is_said() -> None:
    driver = driver_of()
    with pytest.raises(StepError, match=r'in/0 offset 0: ZeroDivisionError.*on_error="dead_letter"'):
        send(driver, 0)


def test_a_skipped_record_is_counted() -> None:
    driver = driver_of("skip")
    send(driver, 0, 5)
    assert (values(driver), driver.worker.skipped, driver.dead_letters()) == ([20], 1, [])


@pytest.mark.parametrize("answer", ["dead_letter", "dead-letter", dead_letter()])
def test_a_dead_letter_is_the_record_with_headers(answer: OnError) -> None:
    driver = driver_of(answer)
    driver.send("in", 0, key="k", timestamp=7, headers=(("mine", b"1"),))
    (letter,) = driver.dead_letters()
    assert (letter.key, letter.value, letter.timestamp, letter.headers[0]) == (b"k", bytes(8), 7, ("mine", b"1"))
    headers = {name: text.decode() for name, text in letter.headers[1:] if text is not None}
    trace = headers.pop("__streams.errors.stacktrace")
    assert trace.startswith("Traceback")
    assert "in <lambda>" in trace
    assert "results_of" not in trace
    assert headers.pop("__streamtopo.errors.place").startswith("lambda, test_policies.py:")
    assert headers == {
        "__streams.errors.exception": "ZeroDivisionError",
        "__streams.errors.message": "integer division or modulo by zero",
        "__streams.errors.topic": "in",
        "__streams.errors.partition": "0",
        "__streams.errors.offset": "0",
        "__streamtopo.errors.node": "KSTREAM-MAPVALUES-0000000001",
        "__streamtopo.errors.stage": "step",
        "__streamtopo.errors.task": "0_0",
        "__streamtopo.errors.application": "halves",
        "__streamtopo.errors.attempts": "1",
    }


def test_the_stage_says_where_it_failed() -> None:
    numbers: Any = lambda value: str(100 // value) if value == 7 else 100 // value  # noqa: E731
    builder = halves(numbers)
    driver = driver_of("dead_letter", builder)
    driver.send_bytes("in", b"no int")
    send(driver, 0, 7, 5)
    assert [one["__streamtopo.errors.stage"] for one in told(driver)] == ["decode", "step", "produce"]
    assert values(driver) == [20]


def test_the_partition_is_that_of_the_record() -> None:
    driver = driver_of("dead_letter", partitions=3)
    for partition in range(3):
        driver.send("in", 0, key="k", partition=partition)
    assert [letter.partition for letter in driver.dead_letters()] == [0, 1, 2]


def test_the_application_declares_an_answer_and_the_option_replaces_it() -> None:
    builder = halves()
    builder.on_error("skip")
    driver = driver_of(None, builder)
    send(driver, 0)
    assert driver.worker.skipped == 1
    with pytest.raises(StepError):
        send(driver_of("fail", builder), 0)


def test_a_function_decides() -> None:
    builder = halves()

    @builder.on_error
    def decide(failed: FailedRecord) -> str:
        assert isinstance(failed.cause, ZeroDivisionError)
        return "skip" if failed.key == b"k0" else "dead_letter"

    driver = driver_of(None, builder)
    send(driver, 0, 0, 5)
    assert (values(driver), driver.worker.skipped, len(told(driver))) == ([20], 1, 1)


@pytest.mark.parametrize("decide", [lambda failed: None, lambda failed: 1 // 0, lambda: "skip", lambda failed: "no"])
def test_a_function_that_fails_stops_the_worker(decide: Any) -> None:
    with pytest.raises(StepError, match=r"in/0 offset 0.*the on_error function .*lambda.* was asked what to do"):
        send(driver_of(decide), 0)


@pytest.mark.parametrize("text", ["dead-letter:bad_ones", "dead_letter:bad_ones", "retry:1:1s:dead_letter:bad_ones"])
def test_an_option_names_another_topic(text: str) -> None:
    driver = driver_of(text)
    send(driver, 0)
    driver.advance(wall_clock_ms=1000)
    assert len(driver.dead_letters("bad_ones")) == 1


def test_a_function_names_another_topic() -> None:
    driver = driver_of(lambda failed: dead_letter("bad"))
    send(driver, 0)
    assert (len(driver.dead_letters("bad")), driver.dead_letters()) == (1, [])


@pytest.mark.parametrize("wrong", ["no", "retry", "retry:x", "retry:0", "retry:1:1s:retry:1", None, 5])
def test_a_wrong_answer_is_an_error_at_once(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"on_error|tried again|then= of retry"):
        StreamsBuilder("app").on_error(wrong)


# -- retries


class Service:
    """Does not answer for 0 as long as it is down."""

    def __init__(self) -> None:
        self.down = True
        self.calls: list[int] = []

    def __call__(self, value: int) -> int:
        self.calls.append(value)
        if value == 0 and self.down:
            raise ConnectionError("the service does not answer")
        return value or 1000


def together(driver: Driver, *values: int) -> None:
    driver.send_all([DriverRecord("in", "k", value, 0) for value in values])


def test_a_record_is_tried_again_and_what_comes_after_it_waits() -> None:
    service = Service()
    driver = driver_of(retry(9, backoff="1s"), halves(service), partitions=2)
    for partition, value in [(0, 1), (0, 0), (0, 2), (1, 3)]:
        driver.send("in", value, partition=partition)
    assert values(driver) == [1, 3]
    driver.advance(wall_clock_ms=999)
    before = len(service.calls)
    driver.advance(wall_clock_ms=1)
    assert service.calls[before:] == [0]
    service.down = False
    driver.advance(wall_clock_ms=1999)
    assert values(driver) == []
    driver.advance(wall_clock_ms=1)
    assert values(driver) == [1000, 2]


def test_records_after_it_are_not_processed_before() -> None:
    service = Service()
    driver = driver_of(retry(3, backoff="1s"), halves(service))
    together(driver, 1, 0, 2)
    assert values(driver) == [1]
    service.down = False
    driver.advance(wall_clock_ms=1000)
    assert values(driver) == [1000, 2]


@pytest.mark.parametrize(("then", "letters", "skipped"), [("dead_letter", 1, 0), ("skip", 0, 1)])
def test_after_the_last_attempt_follows_another_answer(then: str, letters: int, skipped: int) -> None:
    driver = driver_of(retry(2, backoff="1s", then=then), halves(Service()))
    send(driver, 1, 0, 2)
    assert values(driver) == [1]
    driver.advance(wall_clock_ms=1000)
    driver.advance(wall_clock_ms=2000)
    found = told(driver)
    assert (values(driver), len(found), driver.worker.skipped) == ([2], letters, skipped)
    assert [one["__streamtopo.errors.attempts"] for one in found] == ["3"] * letters


def test_after_the_last_attempt_the_worker_stops() -> None:
    driver = driver_of(retry(1, backoff="1s"), halves(Service()))
    send(driver, 1, 0, 2)
    with pytest.raises(StepError, match="in/0 offset 1: ConnectionError"):
        driver.advance(wall_clock_ms=1000)


def test_a_record_that_waits_is_tried_at_once_after_a_restart() -> None:
    service = Service()
    driver = driver_of(retry(2, backoff="1h"), halves(service))
    send(driver, 1, 0, 2)
    service.down = False
    driver.restart()
    assert values(driver) == [1, 1000, 2]


def test_decoding_is_tried_again() -> None:
    registry = Service()
    length = Serde("length", lambda value: b"x" * value, lambda data: registry(len(data) % 5))
    builder = StreamsBuilder("lengths")
    builder.stream("in", value=length).to("out", value=int)
    driver = driver_of(retry(5, backoff="1s", then="skip"), builder)
    driver.send_bytes("in", b"1")
    for data in (b"55555", b"333"):
        driver.send_bytes("in", data)
    assert values(driver) == [1]
    driver.advance(wall_clock_ms=1000)
    assert values(driver) == []
    registry.down = False
    driver.advance(wall_clock_ms=2000)
    assert values(driver) == [1000, 3]


@pytest.mark.parametrize("cache", [0, 100_000])
def test_stores_are_as_if_it_had_never_failed(cache: int) -> None:
    service = Service()
    builder = StreamsBuilder("sums")
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    sums = grouped.aggregate(lambda: 0, lambda _, value, total: total + service(value), value=int, name="sums")
    sums.to_stream().to("out")
    driver = driver_of(retry(9, backoff="1s"), builder, cache=cache)
    together(driver, 1, 0, 2)
    together(driver, 3)
    assert driver.store("sums").get("k") == 1
    service.down = False
    driver.advance(wall_clock_ms=1000)
    assert driver.store("sums").get("k") == 1006
    assert values(driver)[-1] == 1006


def test_a_punctuation_is_not_tried_again() -> None:
    class Tick(Processor):
        def init(self, context: ProcessorContext) -> None:
            context.schedule("1s", "wall_clock", lambda now: 1 // 0)

        def process(self, record: Record) -> None:
            pass

    builder = StreamsBuilder("ticks")
    builder.stream("in").process(Tick)
    driver = driver_of(retry(5, then="dead_letter"), builder)
    driver.advance(wall_clock_ms=1000)
    (letter,) = told(driver)
    assert letter["__streamtopo.errors.call"] == "the punctuation at wall clock 1000"


def test_it_is_reported_if_all_records_fail_in_the_same_way(caplog: pytest.LogCaptureFixture) -> None:
    driver = driver_of("skip")
    together(driver, *[0, 1] * 1000)
    assert "one after the other" not in caplog.text
    driver = driver_of("skip")
    together(driver, *[0] * 1000)
    assert "1000 records failed in the same way, one after the other: step " in caplog.text


def test_not_every_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    driver = driver_of("skip")
    together(driver, *[0] * 900)
    assert caplog.text.count("skipped: ") == 10 + 6
    assert "it is number 512 of its kind" in caplog.text


def test_the_metrics_say_what_failed_where() -> None:
    driver = driver_of(lambda failed: "skip" if failed.stage == "decode" else "dead_letter")
    driver.send_bytes("in", b"no int")
    together(driver, 0, 0, 1)
    metrics = driver.worker.metrics()
    assert (metrics.skipped, metrics.dead_letters) == (1, 2)
    line, file = halves.__code__.co_firstlineno, "test_policies.py"
    assert [str(one) for one in metrics.failures] == [
        f"dead letters 2 in KSTREAM-MAPVALUES-0000000001 (lambda, {file}:{line}): ZeroDivisionError",
        f"skipped 1 in KSTREAM-SOURCE-0000000000 (reads in, {file}:{line + 2}): SerdeError",
    ]


def test_all_records_of_a_topic_may_fail() -> None:
    driver = driver_of("dead_letter")
    together(driver, *[0] * 500)
    assert (len(driver.dead_letters()), values(driver)) == (500, [])
    with pytest.raises(StreamtopoError):
        driver.read("nothing")
