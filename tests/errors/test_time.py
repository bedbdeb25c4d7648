"""Rows that are forwarded because time moves may fail: then that is not the fault of the record that moves it."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import StreamsBuilder, Windows
from streamtopo.dsl.tables.suppress import until_window_closes
from streamtopo.errors import StepError
from streamtopo.testing import Driver


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
