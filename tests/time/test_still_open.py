"""Windows of results: time goes on although the first windows, of one partition, give no results for a while."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import StreamsBuilder, Topology, Windows
from streamtopo.testing import Driver, DriverRecord

FIRST = {
    "tumbling": Windows.tumbling("1s"),
    "hopping": Windows.hopping("2s", every="1s"),
    "sliding": Windows.sliding("900ms"),
    "sessions": Windows.session("500ms"),
}


def busy_windows(windows: Any) -> Topology:
    """How many windows with several clicks there were in ten seconds."""
    builder = StreamsBuilder("busy")
    clicks = builder.stream("clicks", key=str, value=str).group_by_key()
    counts = clicks.windowed_by(windows, emit="on_close").count()
    busy = counts.to_stream().filter(lambda _, count: count > 1).map(lambda *_: ("busy", 1), key=str, value=int)
    seconds = busy.group_by_key().windowed_by(Windows.tumbling("10s", grace="2s"), emit="on_close").count()
    seconds.to_stream(lambda window, _: window.start, key=int).to("out")
    return builder.build()


@pytest.mark.parametrize("name", FIRST)
def test_time_goes_on_with_a_busy_partition_that_writes_nothing(name: str) -> None:
    """Nothing waits for the hour after which a partition would count as silent."""
    driver = Driver(busy_windows(FIRST[name]), partitions=2, origin_idle="1h")
    driver.send_all(DriverRecord("clicks", "ann", "", 1000 * n + at, 0, ()) for n in range(20) for at in (0, 10))
    driver.send_all(DriverRecord("clicks", "bob", "", 3000 * n, 1, ()) for n in range(7))
    assert [start for start, _ in driver.read("out")] == [0]
