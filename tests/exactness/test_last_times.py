"""The highest possible timestamps, and durations that reach beyond them: every operator accepts them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamtopo import KGroupedStream, KStream, StreamsBuilder, Windows, until_time_limit, until_window_closes
from streamtopo.testing import Driver, DriverRecord
from streamtopo.windows import Windowed

LAST = (1 << 63) - 1
SIZES = [10_000, 1 << 40, 1 << 62, LAST]
Operator = Callable[[KStream, KStream, int], KStream]


def grouped(stream: KStream) -> KGroupedStream:
    return stream.group_by_key()


def both(left: str | None, right: str | None) -> str:
    return f"{left} {right}"


OPERATORS: dict[str, Operator] = {
    "tumbling": lambda a, _, size: grouped(a).windowed_by(Windows.tumbling(size, grace=size)).count().to_stream(),
    "hopping": lambda a, _, size: (
        grouped(a).windowed_by(Windows.hopping(size, every=size - size // 3), emit="on_close").count().to_stream()
    ),
    "sliding": lambda a, _, size: grouped(a).windowed_by(Windows.sliding(size), emit="on_close").count().to_stream(),
    "session": lambda a, _, size: grouped(a).windowed_by(Windows.session(size, grace=size)).count().to_stream(),
    "closed session": lambda a, _, size: (
        grouped(a).windowed_by(Windows.session(size), emit="on_close").count().to_stream()
    ),
    "suppress": lambda a, _, size: (
        grouped(a).windowed_by(Windows.tumbling(size)).count().suppress(until_window_closes()).to_stream()
    ),
    "suppress with grace": lambda a, _, size: (
        grouped(a).windowed_by(Windows.tumbling(9, grace=size)).count().suppress(until_window_closes()).to_stream()
    ),
    "suppress sessions": lambda a, _, size: (
        grouped(a).windowed_by(Windows.session(size)).count().suppress(until_window_closes()).to_stream()
    ),
    "time limit": lambda a, _, size: grouped(a).count().suppress(until_time_limit(size)).to_stream(),
    "join": lambda a, b, size: a.join(b, both, within=size, grace=size),
    "outer join": lambda a, b, size: a.outer_join(b, both, within=size),
    "join of versions": lambda a, b, size: a.left_join(b.to_table(versioned=size), both, grace=size),
    "deduplicate": lambda a, _, size: a.deduplicate(size),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_accepts_the_highest_timestamps(operator: str, size: int) -> None:
    builder = StreamsBuilder("last")
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    OPERATORS[operator](left, right, size).to("out")
    driver = Driver(builder.build())
    for number, time in enumerate((1000, LAST - 10_000, LAST - 1, 2000, LAST, LAST)):
        driver.send_all(DriverRecord(topic, "k", f"{topic}{number}", time) for topic in ("right", "left"))
        if number == 3:
            driver.crash()
            driver.restart()
    assert max((record.timestamp for record in driver.records("out")), default=LAST) <= LAST


def test_a_window_that_ends_after_the_highest_timestamp_stays_open() -> None:
    builder = StreamsBuilder("last")
    counts = grouped(builder.stream("in", key=str, value=str)).windowed_by(Windows.tumbling(10_000)).count()
    counts.suppress(until_window_closes()).to_stream().to("out")
    driver = Driver(builder.build())
    for time in (LAST - 10_000, LAST - 1, LAST):
        driver.send("in", "value", key="k", timestamp=time)
        driver.restart()
    start = LAST // 10_000 * 10_000
    assert driver.read("out") == [(Windowed("k", start - 10_000, start), 1)]
