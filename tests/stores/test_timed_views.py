"""Window and session stores in a user's processor: bounds, order, expiry, restarts, and keys with equal prefixes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo import (
    Processor,
    Record,
    StreamsBuilder,
    Topology,
    retaining_duplicates,
    session_store,
    window_store,
)
from streamtopo.errors import SerdeError, StoreError, TopologyError
from streamtopo.stores import StoreSpec
from streamtopo.testing import Driver
from streamtopo.windows import Windowed


class Idle(Processor):
    def process(self, record: Record) -> None:
        pass


def topology_of(store: StoreSpec) -> Topology:
    builder = StreamsBuilder("timed")
    builder.stream("in", key=str, value=str).process(Idle, stores=[store])
    return builder.build()


def driver_of(store: StoreSpec, **options: Any) -> Driver:
    return Driver(topology_of(store), **options)


def windows(*, retention: str = "1m", key: Any = str) -> StoreSpec:
    return window_store("rows", window_size="5s", retention=retention, key=key, value=list)


def sessions() -> StoreSpec:
    return session_store("rows", retention="1m", key=str, value=int)


def test_all_bounds_are_included() -> None:
    store = driver_of(windows()).store("rows")
    for start in (0, 5, 10, 15):
        store.put("a", [start], start)
    assert list(store.fetch_range("a", 5, 10)) == [(5, [5]), (10, [10])]
    assert list(store.backward_fetch_range("a", 5, 10)) == [(10, [10]), (5, [5])]
    assert [window for window, _ in store.fetch_all(10, 99)] == [("a", 10, 5010), ("a", 15, 5015)]
    assert store.fetch("a", 15) == [15]
    assert store.fetch("a", 14) is None


def test_keys_with_equal_prefixes_are_kept_apart() -> None:
    """The bytes of one key and a time may be a prefix of those of another."""
    store = driver_of(windows(key=bytes)).store("rows")
    keys = [b"", b"\0", b"\0" * 8, b"a", b"a" + b"\0" * 8, b"a" + b"\0" * 12, b"ab", b"b"]
    for key in keys:
        store.put(key, [len(key)], 7)
    for key in keys:
        assert list(store.fetch_range(key, 0, 100)) == [(7, [len(key)])]
    assert sorted(window.key for window, _ in store.fetch_keys_range(b"a", b"ab", 0, 100)) == keys[3:7]


def test_a_row_can_be_read_until_its_retention_ends() -> None:
    driver = driver_of(windows())
    store = driver.store("rows")
    store.put("a", [0], 0)
    store.put("b", [1], 59_999)
    assert list(store.fetch_range("a", 0, 0)) == [(0, [0])]
    store.put("b", [2], 60_000)
    assert (store.fetch("a", 0), list(store.fetch_range("a", 0, 0))) == (None, [])
    store.put("c", [3], 0)
    assert list(store.all()) == [(("b", 59_999, 64_999), [1]), (("b", 60_000, 65_000), [2])]
    assert driver.dropped() == {"expired": 1}


def test_expired_rows_are_deleted_in_store_and_changelog() -> None:
    driver = driver_of(windows())
    store = driver.store("rows")
    for start in range(0, 600_000, 10_000):
        store.put("a", [start], start)
    (kept,) = driver._stores.values()
    assert len(list(kept.scan(b"", b"\xff"))) < 20
    driver.crash()
    driver.restart()
    (kept,) = driver._stores.values()
    assert len(list(kept.scan(b"", b"\xff"))) < 20


def test_expired_rows_stay_expired_after_a_restart() -> None:
    driver = driver_of(windows())
    driver.store("rows").put("a", [0], 0)
    driver.store("rows").put("a", [1], 70_000)
    driver.send("in", "anything", key="a")
    driver.crash()
    driver.restart()
    assert driver.store("rows").fetch("a", 0) is None
    assert list(driver.store("rows").all()) == [(("a", 70_000, 75_000), [1])]


def test_returned_values_are_not_shared() -> None:
    store = driver_of(windows()).store("rows")
    value = [1]
    store.put("a", value, 0)
    value.append(2)
    store.fetch("a", 0).append(3)
    next(store.all())[1].append(4)
    assert store.fetch("a", 0) == [1]


def test_sessions_by_end_and_start() -> None:
    store = driver_of(sessions()).store("rows")
    for start, end in [(0, 10), (5, 10), (20, 30), (40, 40)]:
        store.put("a", start, end, start)
    store.put("aa", 0, 100, 1)
    found = [(0, 10), (5, 10), (20, 30), (40, 40)]
    assert list(store.fetch("a")) == [(("a", *span), span[0]) for span in found]
    assert [window[1:] for window, _ in store.backward_fetch("a")] == found[::-1]
    assert [window[1:] for window, _ in store.find_sessions("a", 10, 20)] == found[:3]
    assert [window[1:] for window, _ in store.find_sessions("a", 11, 39)] == [(20, 30)]
    store.remove("a", 5, 10)
    assert (store.fetch_session("a", 5, 10), store.fetch_session("a", 0, 10)) == (None, 0)


def test_several_partitions() -> None:
    store = driver_of(windows(), partitions=3).store("rows")
    for key in "abcdef":
        store.put(key, [1], 10)
    assert sorted(window.key for window, _ in store.all()) == [*"abcdef"]
    assert store.fetch("e", 10) == [1]


def test_errors_name_the_mistake() -> None:
    with pytest.raises(TopologyError, match="windows of 5000 ms for only 1000 ms; give more retention"):
        windows(retention="1s")
    with pytest.raises(StoreError, match='store "rows" was given a null key'):
        driver_of(windows()).store("rows").fetch_range(None, 0, 1)


def test_an_impossible_session_is_an_error_at_once() -> None:
    store = driver_of(sessions()).store("rows")
    with pytest.raises(SerdeError, match="the key does not fit"):
        store.fetch_session("a", "0", 5)
    with pytest.raises(SerdeError, match="the key does not fit"):
        store.put("a", "0", 5, 1)


PUTS = st.lists(
    st.tuples(st.sampled_from(["a", "ab", "b"]), st.integers(0, 200_000), st.none() | st.integers(1, 9)), max_size=30
)


@given(PUTS, st.integers(0, 200_000), st.integers(0, 200_000), st.integers(0, 30))
def test_a_window_store_is_like_a_dict(puts: list[Any], start: int, stop: int, crash_at: int) -> None:
    driver = driver_of(windows())
    model: dict[tuple[str, int], list[int]] = {}
    observed = -1
    for number, (key, time, value) in enumerate(puts):
        if number == crash_at:
            driver.send("in", "anything", key="a")
            driver.crash()
            driver.restart()
        driver.store("rows").put(key, value and [value], time)
        observed = max(observed, time)
        if time > observed - 60_000:
            model[key, time] = [value] if value else []
            if not value:
                del model[key, time]
    live = {at: value for at, value in model.items() if at[1] > observed - 60_000}
    order = sorted(live, key=lambda at: (at[1] // 60_000, at[0].encode() + at[1].to_bytes(8)))
    store = driver.store("rows")
    expected = [(Windowed(key, time, time + 5000), live[key, time]) for key, time in order if start <= time <= stop]
    assert list(store.fetch_all(start, stop)) == expected
    assert list(store.backward_fetch_all(start, stop)) == expected[::-1]
    for key in ("a", "ab", "b"):
        times = sorted(time for name, time in live if name == key and start <= time <= stop)
        assert list(store.fetch_range(key, start, stop)) == [(time, live[key, time]) for time in times]


def test_duplicates_keep_the_order_of_their_puts_after_a_crash_too() -> None:
    driver = driver_of(retaining_duplicates(windows()))
    for value in ([1], [2], None):
        driver.store("rows").put("a", value, 1000)
    driver.crash()
    driver.restart()
    driver.store("rows").put("a", [3], 1000)
    driver.store("rows").put("ab", [4], 1000)
    assert list(driver.store("rows").fetch_range("a", 0, 2000)) == [(1000, [1]), (1000, [2]), (1000, [3])]
    assert driver.store("rows").fetch("a", 1000) == [3]
    with pytest.raises(TopologyError, match="has no windows, so it cannot keep duplicates"):
        retaining_duplicates(sessions())


TIMES = st.one_of(st.integers(0, 30), st.integers(59_990, 60_030), st.integers(119_990, 120_010))


@given(
    puts=st.lists(st.tuples(st.sampled_from(["a", "b"]), TIMES, st.sampled_from([[1], [2], None])), max_size=15),
    start=TIMES,
    stop=TIMES,
    in_memory=st.booleans(),
)
def test_a_range_of_windows_equals_single_reads(puts: list[Any], start: int, stop: int, in_memory: bool) -> None:
    """Neither finds expired rows."""
    store = driver_of(replace(windows(), in_memory=in_memory)).store("rows")
    for key, time, value in puts:
        store.put(key, value, time)
    found = {
        (key, time): value
        for key in ("a", "b")
        for time in sorted({time for _, time, _ in puts if start <= time <= stop})
        if (value := store.fetch(key, time)) is not None
    }
    for key in ("a", "b"):
        of_key = [(time, value) for (k, time), value in found.items() if k == key]
        assert list(store.fetch_range(key, start, stop)) == of_key
        assert list(store.backward_fetch_range(key, start, stop)) == of_key[::-1]
    for rows in (store.fetch_all(start, stop), store.fetch_keys_range("a", None, start, stop)):
        assert {(window.key, window.start): value for window, value in rows} == found


@given(
    puts=st.lists(st.tuples(TIMES, TIMES, st.sampled_from([1, 2, None])), max_size=15),
    earliest_end=TIMES,
    latest_start=TIMES,
)
def test_a_range_of_sessions_equals_single_reads(puts: list[Any], earliest_end: int, latest_start: int) -> None:
    store = driver_of(sessions()).store("rows")
    times = {(min(one, other), max(one, other)) for one, other, _ in puts}
    for one, other, value in puts:
        store.put("a", min(one, other), max(one, other), value)
    rows = {
        Windowed("a", start, end): value
        for start, end in sorted(times, key=lambda time: (time[1], time[0]))
        if (value := store.fetch_session("a", start, end)) is not None
    }
    found = [row for row in rows.items() if row[0].end >= earliest_end and row[0].start <= latest_start]
    assert sorted(store.find_sessions("a", earliest_end, latest_start)) == sorted(found)
    assert dict(store.fetch("a")) == dict(store.all()) == rows
