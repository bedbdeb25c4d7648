"""Final results of windows, with records far ahead of a moving wall clock, compared with a model in plain Python."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamtopo import StreamsBuilder, Topology, Windows, until_window_closes
from streamtopo.testing import Driver, DriverRecord

MINUTE = 60_000
LIMIT = 5 * MINUTE
START = 1_795_000_020_000 // MINUTE * MINUTE
SIZE, GAP, GRACE = 3 * MINUTE, MINUTE, MINUTE
Window = tuple[str, int, int]


class Step(NamedTuple):
    records: list[tuple[str, int]]
    """The key, and how far the record is ahead of the wall clock."""
    passes: int
    end: str


AHEAD = st.one_of(
    st.sampled_from([0, 0, 1, -MINUTE, LIMIT - 1, LIMIT, LIMIT + 1, 9 * MINUTE, 20 * MINUTE, 1 << 50]),
    st.integers(-4 * MINUTE, 10 * MINUTE).map(lambda ahead: ahead // 7 * 7 + 3),
)
STEPS = st.lists(
    st.builds(
        Step,
        st.lists(st.tuples(st.sampled_from("ab"), AHEAD), min_size=1, max_size=10),
        st.sampled_from([0, 1, MINUTE, 2 * MINUTE, 3 * MINUTE, 10 * MINUTE]),
        st.sampled_from(["", "restart", "crash"]),
    ),
    min_size=2,
    max_size=8,
)


def tumbling(steps: list[Step], *, closed_at_end: bool) -> dict[Window, int]:
    counts: dict[Window, int] = {}
    final: dict[Window, int] = {}
    now, stream = START, -1
    for step in steps:
        for key, ahead in step.records:
            time = now + ahead
            stream = max(stream, time) if ahead <= LIMIT else stream
            window = (key, time // SIZE * SIZE, time // SIZE * SIZE + SIZE)
            if window[2] + GRACE > stream:
                counts[window] = counts.get(window, 0) + 1
            final.update({one: counts.pop(one) for one in [*counts] if one[2] + GRACE <= stream})
        now += step.passes
    return final


def sessions(steps: list[Step], *, closed_at_end: bool) -> dict[Window, int]:
    """With `closed_at_end` they close when stream time is the end plus gap and grace, else one millisecond later."""
    counts: dict[Window, int] = {}
    final: dict[Window, int] = {}
    now, stream = START, -1
    for step in steps:
        for key, ahead in step.records:
            time = now + ahead
            stream = max(stream, time) if ahead <= LIMIT else stream
            kept = [one for one in counts if one[2] > stream - GAP - GRACE]
            near = [one for one in kept if one[0] == key and one[1] - GAP <= time <= one[2] + GAP]
            start, end = min([time, *(one[1] for one in near)]), max([time, *(one[2] for one in near)])
            if end >= stream - GAP - GRACE:
                counts[key, start, end] = 1 + sum(counts.pop(one) for one in near)
            past = stream - GAP - GRACE + closed_at_end
            final.update({one: counts.pop(one) for one in [*counts] if one[2] < past})
        now += step.passes
    return final


WINDOWS: dict[Any, Any] = {
    tumbling: Windows.tumbling(SIZE, grace=GRACE),
    sessions: Windows.session(GAP, grace=GRACE),
}


def topology(windows: Any, *, suppressed: bool) -> Topology:
    builder = StreamsBuilder("ahead")
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    if suppressed:
        counts = grouped.windowed_by(windows).count().suppress(until_window_closes())
    else:
        counts = grouped.windowed_by(windows, emit="on_close").count()
    counts.to_stream(lambda window, _: f"{window.key} {window.start} {window.end}", key=str).to("out")
    return builder.build()


@pytest.mark.parametrize("suppressed", [False, True])
@pytest.mark.parametrize("model", [tumbling, sessions])
@given(steps=STEPS, chunk=st.sampled_from([1, 2, 10_000]))
@example(
    # An update whose time is that of an earlier record, which was too far ahead: it closes no window by itself.
    steps=[
        Step([("a", 0)], 60_000, ""),
        Step([("a", 300_002)], 120_000, ""),
        Step([("a", 0)], 120_000, ""),
        Step([("a", 0), ("a", -60_000), ("a", 299_999)], 0, ""),
    ],
    chunk=10_000,
)
def test_each_window_comes_out_once_when_the_time_gets_there(
    model: Any, suppressed: bool, steps: list[Step], chunk: int
) -> None:
    windows = WINDOWS[model]
    driver = Driver(topology(windows, suppressed=suppressed), wall_clock_ms=START, max_ahead=LIMIT, chunk=chunk)
    for step in steps:
        driver.send_all(DriverRecord("in", key, 1, driver.wall_clock_ms + ahead) for key, ahead in step.records)
        driver.advance(wall_clock_ms=step.passes)
        if step.end == "crash":
            driver.crash()
        if step.end:
            driver.restart()
    wanted = model(steps, closed_at_end=suppressed)
    assert sorted(driver.read("out")) == sorted((f"{key} {start} {end}", n) for (key, start, end), n in wanted.items())
