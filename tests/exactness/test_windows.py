"""Each kind of window compared with a short model: all orders of up to six records, and long random sequences."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo import KTable, StreamsBuilder, Topology, Windowed, Windows
from streamtopo.engine.worker.replay import Replay
from streamtopo.records import NOTHING, Chunk
from streamtopo.settings.config import WorkerConfig
from streamtopo.testing import Driver, DriverRecord
from streamtopo.topology.operator import Operator
from tests.exactness.models import Event, Rows, session_windows, sliding_windows, time_windows

Kind = tuple[Any, Callable[[list[Event]], Rows]]

KINDS: dict[str, Kind] = {
    "tumbling": (Windows.tumbling(10), lambda events: time_windows(events, 10, 10, 0)),
    "tumbling with grace": (Windows.tumbling(10, grace=7), lambda events: time_windows(events, 10, 10, 7)),
    "hopping": (Windows.hopping(10, every=4, grace=3), lambda events: time_windows(events, 10, 4, 3)),
    "session": (Windows.session(5), lambda events: session_windows(events, 5, 0)),
    "session with grace": (Windows.session(5, grace=4), lambda events: session_windows(events, 5, 4)),
    "sliding": (Windows.sliding(5, grace=1000), lambda events: sliding_windows(events, 5)),
}
EDGES = [10, 15, 20, 21, 30, 19]
"""Times on and around the edges of windows, gaps and graces."""


def append(_: str, value: str, row: list[str]) -> list[str]:
    """Append in place, so that rows shared by mistake are noticed."""
    row.append(value)
    return row


def delete_at_three(_: str, value: str, row: list[str]) -> list[str] | None:
    row.append(value)
    return row if len(row) % 3 else None


def merge(_: str, one: list[str], other: list[str]) -> list[str]:
    one.extend(other)
    return one


def topology(windows: Any, *, emit: str = "on_update") -> Topology:
    builder = StreamsBuilder("windows")
    windowed = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows, emit=emit)
    merger = [merge] if "Session" in type(windows).__name__ else []
    table: KTable = windowed.aggregate(list, append, *merger, value=list, name="rows")
    table.to_stream().to("out")
    return builder.build()


def last_rows(driver: Driver) -> Rows:
    """Return the final rows for a reader of all updates."""
    rows = dict(driver.read("out"))
    return {window: "".join(row) for window, row in rows.items() if row is not None}


def records(events: list[Event]) -> list[DriverRecord]:
    return [DriverRecord("in", event.key, event.value, event.time, -1) for event in events]


def as_sets(rows: Rows) -> Rows:
    return {window: "".join(sorted(row)) for window, row in rows.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_all_orders_of_records_on_the_edges(kind: str) -> None:
    windows, model = KINDS[kind]
    described = topology(windows)
    orders = [list(order) for size in range(1, 4) for order in permutations(EDGES, size)]
    orders += list(map(list, permutations(EDGES)))[::24]
    for times in orders:
        events = [Event("k", "abcdef"[place], time) for place, time in enumerate(times)]
        driver = Driver(described)
        driver.send_all(records(events))
        assert as_sets(last_rows(driver)) == as_sets(model(events)), times


@pytest.fixture(autouse=True, scope="module")
def _chunks_do_not_fail() -> Iterator[None]:
    """A failed chunk is repeated record by record, which would hide the failure."""

    def failed(*_: Any) -> None:
        raise AssertionError("a chunk failed") from sys.exception()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replay, "_do_again", failed)
        yield


EVENTS = st.lists(st.builds(Event, st.sampled_from("kl"), st.sampled_from("abc"), st.integers(10, 120)), max_size=40)


@pytest.mark.parametrize("kind", KINDS)
@given(events=EVENTS, chunk=st.sampled_from([1, 3, 10_000]), cut=st.integers(0, 40))
def test_random_records_in_any_chunks_and_after_a_crash(kind: str, events: list[Event], chunk: int, cut: int) -> None:
    windows, model = KINDS[kind]
    driver = Driver(topology(windows), chunk=chunk)
    driver.send_all(records(events[:cut]))
    driver.crash()
    driver.restart()
    driver.send_all(records(events[cut:]))
    rows, expected = last_rows(driver), model(events)
    assert (as_sets(rows) if kind == "sliding" else rows) == expected
    stored = {window: "".join(row) for window, row in driver.store("rows").all()}
    assert stored.items() <= rows.items(), "expired rows are not visible, and the others are those forwarded last"
    newest = max(event.time for event in events) if events else 0
    assert all(window in stored for window in rows if newest in range(window.start, window.end))


@pytest.mark.parametrize("kind", KINDS)
@given(events=EVENTS)
def test_rows_that_stay_in_memory_for_two_commits_only(kind: str, events: list[Event]) -> None:
    windows, model = KINDS[kind]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerConfig, "row_memory", 0)
        driver = Driver(topology(windows))
        for record in records(events):
            driver.send_all([record])
    rows, expected = last_rows(driver), model(events)
    assert (as_sets(rows) if kind == "sliding" else rows) == expected


@pytest.mark.parametrize("kind", KINDS)
@given(events=EVENTS)
def test_each_window_is_emitted_once_with_its_last_update(kind: str, events: list[Event]) -> None:
    windows, model = KINDS[kind]
    driver = Driver(topology(windows, emit="on_close"))
    driver.send_all(records([*events, Event("z", "z", 5000)]))
    emitted = [(window, "".join(row)) for window, row in driver.read("out")]
    assert len(emitted) == len(dict(emitted)), "each window closes once"
    assert as_sets(dict(emitted)) == as_sets(model(events))
    assert [window.start for window, _ in emitted] == sorted(window.start for window, _ in emitted) or "session" in kind


@pytest.mark.parametrize("kind", KINDS)
@given(events=EVENTS)
def test_with_the_record_cache_the_final_rows_are_the_same(kind: str, events: list[Event]) -> None:
    windows, model = KINDS[kind]
    driver = Driver(topology(windows), cache=100_000)
    for start in range(0, len(events), 7):
        driver.send_all(records(events[start : start + 7]))
    assert as_sets(last_rows(driver)) == as_sets(model(events))


@given(events=EVENTS)
def test_counts_per_chunk_equal_counts_per_record(events: list[Event]) -> None:
    for windows in (Windows.tumbling(10, grace=7), Windows.hopping(10, every=4), Windows.session(5, grace=4)):
        builder = StreamsBuilder("counts")
        builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows).count(
            name="counts"
        ).to_stream().to("out")
        described = builder.build()
        each, together = Driver(described), Driver(described, cache=100_000)
        each.send_all(records(events))
        together.send_all(records(events))
        assert list(together.store("counts").all()) == list(each.store("counts").all())
        ended = {window: total for window, total in dict(each.read("out")).items() if total is not None}
        assert dict(together.read("out")) == ended


@pytest.mark.parametrize("kind", KINDS)
@given(events=EVENTS, cache=st.sampled_from([0, 100_000]), chunk=st.sampled_from([1, 10_000]))
def test_old_values_are_the_values_forwarded_before(kind: str, events: list[Event], cache: int, chunk: int) -> None:
    builder = StreamsBuilder("old")
    windowed = builder.stream("in", key=str, value=str).group_by_key().windowed_by(KINDS[kind][0])
    merger = [merge] if kind.startswith("session") else []
    # Rows are kept longer than they are needed: a row that has expired has no old value (test_expired_rows.py).
    table = windowed.aggregate(list, delete_at_three, *merger, value=list, name="rows", retention=10_000)
    seen: list[tuple[Any, Any, Any]] = []

    def see(chunk: Chunk) -> Chunk:
        seen.extend(zip(chunk.keys, chunk.values, chunk.old or [], strict=True))
        return NOTHING

    assert table.origin.send_old(keep=True)
    table.graph.process("see", (table.node,), Operator(lambda _: see))
    driver = Driver(builder.build(), cache=cache, chunk=chunk)
    for start in range(0, len(events), 9):
        driver.send_all(records(events[start : start + 9]))
    rows: dict[Any, Any] = {}
    for window, value, old in seen:
        assert old == rows.get(window)
        rows[window] = value


def test_windows_work_for_json_keys() -> None:
    builder = StreamsBuilder("json")
    grouped = builder.stream("in", key=dict, value=str).group_by_key()
    grouped.windowed_by(Windows.session(5)).count(name="rows").to_stream().to("out")
    driver = Driver(builder.build(), partitions=3)
    driver.send("in", "x", key={"b": 1, "a": 2}, timestamp=10)
    driver.send("in", "x", key={"a": 2, "b": 1}, timestamp=12)
    assert driver.read("out")[-1] == (Windowed({"a": 2, "b": 1}, 10, 12), 2)
