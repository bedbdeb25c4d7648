"""Tables whose updates are held back: until a window closes, or for a time."""

from __future__ import annotations

import pytest

from streamtopo import (
    StreamsBuilder,
    until_time_limit,
    until_window_closes,
)
from streamtopo.errors import StepError, TopologyError
from streamtopo.testing import Driver
from tests.windows.counting import grouped


def test_only_windowed_tables_can_wait_for_windows_to_close() -> None:
    table = grouped(StreamsBuilder("suppress")).count(name="counts")
    with pytest.raises(TopologyError, match="is not an aggregation in windows that close; give until_time_limit"):
        table.suppress(until_window_closes())


def test_suppressed_rows_survive_a_crash_with_headers_and_time() -> None:
    builder = StreamsBuilder("held")
    builder.table("in", key=str, value=str).suppress(until_time_limit(10)).to_stream().to("out")
    driver = Driver(builder.build())
    driver.send("in", "one", key="a", timestamp=0, headers=(("h", b"1"),))
    driver.send("in", "two", key="a", timestamp=3, headers=(("h", b"2"), ("", b"")))
    driver.send("in", None, key="b", timestamp=4)
    driver.crash()
    driver.restart()
    driver.send("in", "x", key="c", timestamp=14)
    emitted = [(record.key, record.value, record.timestamp, record.headers) for record in driver.records("out")]
    assert emitted == [("a", "two", 3, (("h", b"2"), ("", b""))), ("b", None, 4, ())]


def test_a_join_sees_emitted_rows_and_not_suppressed_ones() -> None:
    builder = StreamsBuilder("seen")
    stream = builder.stream("stream", key=str, value=str)
    held = builder.table("table", key=str, value=str, name="rows").suppress(until_time_limit(10), name="held")
    stream.left_join(held, lambda value, row: f"{value}-{row}").to("out")
    driver = Driver(builder.build())
    driver.send("table", "one", key="a", timestamp=0)
    driver.send("stream", "1", key="a", timestamp=1)
    driver.send("table", "x", key="b", timestamp=10)
    driver.send("stream", "2", key="a", timestamp=11)
    assert driver.read("out") == [("a", "1-None"), ("a", "2-one")]


def test_a_full_buffer_stops_the_worker_and_loses_nothing() -> None:
    builder = StreamsBuilder("full")
    limit = until_time_limit("1h", max_records=1, when_full="shut_down")
    builder.table("in", key=str, value=str).suppress(limit).to_stream().to("out")
    driver = Driver(builder.build())
    driver.send("in", "one", key="a", timestamp=0)
    with pytest.raises(StepError, match="buffer exceeded its max capacity of 1 records; give more max_records"):
        driver.send("in", "two", key="b", timestamp=0)
