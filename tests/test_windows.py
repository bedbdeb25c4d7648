"""Oddities of windows, one by one, each as a user's program."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import (
    KGroupedStream,
    StreamsBuilder,
    Topology,
    Windowed,
    Windows,
    session_windowed,
    time_windowed,
    until_time_limit,
    until_window_closes,
)
from streamtopo.errors import ConfigError, SerdeError, StepError, TopologyError
from streamtopo.partitioning import partition_of
from streamtopo.testing import Driver


def grouped(builder: StreamsBuilder) -> KGroupedStream:
    return builder.stream("in", key=str, value=str).group_by_key()


def counting(windows: Any, **how: Any) -> Topology:
    builder = StreamsBuilder("windows")
    grouped(builder).windowed_by(windows, **how).count(name="counts").to_stream().to("out")
    return builder.build()


def send(driver: Driver, *records: tuple[str | None, int]) -> None:
    for key, time in records:
        driver.send("in", "v", key=key, timestamp=time)


# -- what is described wrong is refused at once


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Windows.tumbling(0), "the size of a window is 0; give 1 ms or more"),
        (lambda: Windows.tumbling("10s", grace=-1), "the grace of a window is -1; give 0 ms or more"),
        (lambda: Windows.hopping("1s", every="2s"), "windows of 1000 ms every 2000 ms would leave gaps"),
        (lambda: Windows.session("0s"), "the gap of a window is '0s'"),
        (lambda: Windows.unlimited(-5), "the start of a window is -5"),
        (lambda: counting("10s"), "windowed_by was given '10s'"),
        (lambda: counting(Windows.tumbling(5), emit="late"), "emit='late' is not known"),
        (lambda: counting(Windows.unlimited(), emit="on_close"), "unlimited windows never close"),
        (lambda: until_time_limit(-1), "would wait for the past"),
        (lambda: until_time_limit(1, when_full="explode"), "when_full='explode' is not known"),
        (lambda: until_window_closes(max_records=-1), "max_records is -1"),
    ],
)
def test_what_is_wrong_is_said_while_it_is_described(make: Any, told: str) -> None:
    with pytest.raises(TopologyError, match=told.replace("(", r"\(").replace(")", r"\)")):
        make()


def test_a_size_that_is_no_duration() -> None:
    with pytest.raises(ConfigError, match="'ten seconds' is not a duration"):
        Windows.tumbling("ten seconds")


def test_rows_must_be_kept_for_as_long_as_they_can_change() -> None:
    windowed = grouped(StreamsBuilder("retention")).windowed_by(Windows.tumbling("10s", grace="5s"))
    with pytest.raises(TopologyError, match="is to keep rows for 14999 ms, and these windows need them for 15000"):
        windowed.count(name="counts", retention=14_999)


def test_only_windows_close() -> None:
    table = grouped(StreamsBuilder("suppress")).count(name="counts")
    with pytest.raises(TopologyError, match="is no aggregation in windows that close; give until_time_limit"):
        table.suppress(until_window_closes())


def test_streams_with_keys_of_different_types_make_no_row_together() -> None:
    builder = StreamsBuilder("cogroup")
    numbers = builder.stream("numbers", key=int, value=str).group_by_key()
    with pytest.raises(TopologyError, match="equal keys would not meet"):
        grouped(builder).cogroup(lambda key, value, row: row).cogroup(numbers, lambda key, value, row: row)


# -- late records


def test_late_records_are_counted_and_go_to_a_topic_of_their_own() -> None:
    driver = Driver(counting(Windows.hopping(10, every=5), on_late="late"))
    send(driver, ("a", 19), ("a", 12), ("a", 4))
    assert [(record.key, record.value, record.timestamp) for record in driver.records("late")] == [("a", "v", 4)]
    assert driver.dropped() == {"late": 2}  # [5, 15) for the one, [0, 10) for the other
    assert [window.start for window, _ in driver.read("out")] == [10, 15, 10]


@pytest.mark.parametrize("windows", [Windows.tumbling(10), Windows.session(5), Windows.sliding(5)])
@pytest.mark.parametrize("cache", [0, 100_000])
def test_updates_do_not_go_where_late_records_go(windows: Any, cache: int) -> None:
    driver = Driver(counting(windows, on_late="late"), cache=cache)
    send(driver, ("a", 100), ("a", 3), ("b", 104))
    assert [(record.key, record.timestamp) for record in driver.records("late")] == [("a", 3)]
    assert {window.key for window, _ in driver.read("out")} == {"a", "b"}


def test_records_without_a_key_are_dropped_and_do_not_move_time() -> None:
    driver = Driver(counting(Windows.tumbling(10)))
    send(driver, ("a", 5), (None, 1000), ("a", 6))
    assert driver.read("out")[-1] == (Windowed("a", 0, 10), 2)
    assert driver.dropped() == {"null key": 1}


def test_records_without_a_value_count_but_not_in_sliding_windows() -> None:
    for windows, total in ((Windows.tumbling(10), 2), (Windows.session(10), 2), (Windows.sliding(10), 1)):
        driver = Driver(counting(windows))
        send(driver, ("a", 20))
        driver.send("in", None, key="a", timestamp=20)
        assert driver.read("out")[-1][1] == total


# -- keys on topics


@pytest.mark.parametrize(
    ("windows", "key"), [(Windows.tumbling(10), time_windowed(str, 10)), (Windows.session(10), session_windowed(str))]
)
def test_windowed_keys_lie_where_their_inner_key_does_and_are_read_back(windows: Any, key: Any) -> None:
    log = Driver(counting(windows), partitions=5)
    for name in "abcdefgh":
        send(log, (name, 20))
    for record in log.records("out"):
        assert record.partition == partition_of(record.key.key.encode(), 5)
    builder = StreamsBuilder("reader")
    builder.stream("out", key=key, value=int).map(lambda window, total: (window.key, window.start), key=str).to(
        "starts"
    )
    reader = Driver(builder.build(), log=log.log, partitions=5)
    assert sorted(reader.read("starts")) == [(name, 20) for name in "abcdefgh"]


def test_a_key_without_a_window_is_refused() -> None:
    with pytest.raises(SerdeError, match="expected Windowed"):
        time_windowed(str, 10).encode("a")
    with pytest.raises(SerdeError, match="has 8 bytes for its window, and this one 2 in all"):
        time_windowed(str, 10).decode(b"ab")


# -- over restarts


def test_a_window_that_was_handed_on_is_not_handed_on_again_after_a_crash() -> None:
    driver = Driver(counting(Windows.tumbling(10), emit="on_close"))
    send(driver, ("a", 5), ("a", 15))
    driver.crash()
    driver.restart()
    send(driver, ("a", 16), ("a", 2), ("a", 27))
    assert driver.read("out") == [(Windowed("a", 0, 10), 1), (Windowed("a", 10, 20), 2)]
    assert driver.dropped() == {"late": 1}


def test_what_is_held_back_survives_a_crash_with_all_it_carries() -> None:
    builder = StreamsBuilder("held")
    builder.table("in", key=str, value=str).suppress(until_time_limit(10)).to_stream().to("out")
    driver = Driver(builder.build())
    driver.send("in", "one", key="a", timestamp=0, headers=(("h", b"1"),))
    driver.send("in", "two", key="a", timestamp=3, headers=(("h", b"2"), ("", b"")))
    driver.send("in", None, key="b", timestamp=4)
    driver.crash()
    driver.restart()
    driver.send("in", "x", key="c", timestamp=14)
    came = [(record.key, record.value, record.timestamp, record.headers) for record in driver.records("out")]
    assert came == [("a", "two", 3, (("h", b"2"), ("", b""))), ("b", None, 4, ())]


# -- tables held back


def test_a_join_sees_what_went_on_and_not_what_is_held_back() -> None:
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


def test_more_than_there_is_room_for_stops_the_worker_and_loses_nothing() -> None:
    builder = StreamsBuilder("full")
    limit = until_time_limit("1h", max_records=1, when_full="shut_down")
    builder.table("in", key=str, value=str).suppress(limit).to_stream().to("out")
    driver = Driver(builder.build())
    driver.send("in", "one", key="a", timestamp=0)
    with pytest.raises(StepError, match="buffer exceeded its max capacity of 1 records; give more max_records"):
        driver.send("in", "two", key="b", timestamp=0)


def test_an_adder_that_raises_half_way_leaves_nothing_behind() -> None:
    def append(_: str, value: str, row: list[str]) -> list[str]:
        row.append(value)
        if value == "bad":
            raise ValueError(value)
        return row

    builder = StreamsBuilder("raises")
    windowed = grouped(builder).windowed_by(Windows.session(10))
    windowed.aggregate(list, append, lambda key, one, other: one + other, value=list).to_stream().to("out")
    driver = Driver(builder.build(), on_error="skip")
    for value in ("a", "bad", "b"):
        driver.send("in", value, key="k", timestamp=5)
    assert driver.read("out") == [(Windowed("k", 5, 5), ["a"]), (Windowed("k", 5, 5), ["a", "b"])]


def test_old_rows_go_and_nobody_is_told() -> None:
    driver = Driver(counting(Windows.tumbling("1m")), cache=100_000)
    for minute in range(10):
        send(driver, ("a", 60_000 * minute))
    assert [total for _, total in driver.read("out")] == [1] * 10
    assert [window.start for window, _ in driver.store("counts").all()] == [60_000 * 9]
    (task,) = driver.worker.tasks.values()
    assert len(list(task.states["counts"].scan(b"", None))) == 3, "a segment behind the live ones"


@pytest.mark.parametrize(
    ("windows", "newer", "newest"),
    [
        (Windows.tumbling(10, grace=5), 19, 24),
        (Windows.hopping(10, every=3), 10, 13),
        (Windows.sliding(5, grace=3), 16, 20),
    ],
)
def test_a_row_can_be_read_until_the_windows_that_are_kept_are_too_new_for_it(
    windows: Any, newer: int, newest: int
) -> None:
    """Not until records are: the time of the store is that of the last window's start, as in Kafka Streams."""
    driver = Driver(counting(windows))
    send(driver, ("old", 2), ("new", newer))
    driver.restart()
    assert driver.store("counts").fetch("old", 0) == 1
    send(driver, ("new", newest))
    assert driver.store("counts").fetch("old", 0) is None
