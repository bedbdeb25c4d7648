"""With memory for only a few rows, operators give the same results as one record at a time with enough memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from streamtopo import KStream, StreamsBuilder, Topology, Windows, until_time_limit, until_window_closes
from streamtopo.dsl.grouped_table import KGroupedTable
from streamtopo.dsl.joins.stream_join import StreamJoin
from streamtopo.dsl.ktable import KTable
from streamtopo.engine.worker.worker import Worker
from streamtopo.operators.joins import recent, unmatched
from streamtopo.operators.windows import session_windows
from streamtopo.testing import Driver, DriverRecord
from tests.exactness.graphs import FOREIGN, GROUPED, OUTPUTS, records, topologies

MINUTE = 60_000
Emit = Literal["on_update", "on_close"]
Operator = Callable[[KStream, KStream], KStream]


class Small(Driver):
    """Commit after each chunk, and then forget the rows not used since the previous commit."""

    def _start(self) -> Worker:
        self._config = replace(self._config, memory=6, commit_interval=0)
        return super()._start()


@contextmanager
def few_rows(count: int) -> Iterator[None]:
    """Limit what operators keep in memory outside of stores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent, "_KEPT", count * 300)
        patch.setattr(unmatched, "_LISTED", count)
        patch.setattr(session_windows, "_MANY", count)
        yield


# -- operators


def both(one: Any, other: Any) -> str:
    return f"{one}+{other}"


def windowed(windows: Any, emit: Emit) -> Operator:
    def build(one: KStream, other: KStream) -> KStream:
        grouped = one.group_by_key().windowed_by(windows, emit=emit, on_late="late")
        return unwindowed(grouped.aggregate(list, add, *merger, value=list))

    merger = [merge] if "Session" in type(windows).__name__ else []
    return build


def add(_: str, value: str, row: list[str]) -> list[str]:
    row.append(value)
    return row


def merge(_: str, one: list[str], other: list[str]) -> list[str]:
    return sorted([*one, *other])


def unwindowed(table: KTable) -> KStream:
    return table.to_stream(lambda window, _: f"{window.key} {window.start} {window.end}", key=str)


def cogrouped(windows: Any, *merger: Any) -> Operator:
    def build(one: KStream, other: KStream) -> KStream:
        groups = one.group_by_key().cogroup(add).cogroup(other.group_by_key(), add)
        return unwindowed(groups.windowed_by(windows).aggregate(list, *merger, value=list))

    return build


def grouped_again(windows: Any, *merger: Any) -> Operator:
    """Aggregate the old and new values of the windows in groups."""

    def build(one: KStream, other: KStream) -> KStream:
        groups = one.group_by_key().cogroup(add).cogroup(other.group_by_key(), add)
        table = groups.windowed_by(windows).aggregate(list, *merger, value=list)
        return by_key(table).aggregate(list, added, removed, value=list).to_stream()

    return build


def looked_up(windows: Any, *merger: Any, emit: Emit = "on_update") -> Operator:
    """Join other windows, or a stream, with these windows: expired ones are not found."""

    def build(one: KStream, other: KStream) -> KStream:
        left, right = (
            stream.group_by_key().windowed_by(windows, emit=emit).aggregate(list, add, *merger, value=list)
            for stream in (one, other)
        )
        some = right.filter(lambda _, row: len(row) < 3).transform_values(lambda _, row: str(row), value=str)
        tables = [left.outer_join(right, both, value=str), left.join(some, both, value=str)]
        if emit == "on_update":
            tables.append(left.left_join(right.suppress(until_time_limit(MINUTE)), both, value=str))
        joined: KStream = left.to_stream().left_join(right, both, value=str)
        for table in tables:
            joined = joined.merge(table.to_stream())
        return joined.map(lambda window, row: (f"{window.key} {window.start} {window.end}", row), key=str)

    return build


def by_key(table: KTable) -> KGroupedTable:
    return table.group_by(lambda window, row: (window.key, str(row)), key=str, value=str)


def added(_: str, value: str, row: list[str]) -> list[str]:
    return [*row, f"+{value}"][-9:]


def removed(_: str, value: str, row: list[str]) -> list[str]:
    return [*row, f"-{value}"][-9:]


def suppressed(windows: Any) -> Operator:
    def build(one: KStream, other: KStream) -> KStream:
        return unwindowed(one.group_by_key().windowed_by(windows).count().suppress(until_window_closes()))

    return build


def versioned(grace: int) -> Operator:
    return lambda one, other: one.left_join(other.to_table(versioned=4 * MINUTE), both, grace=grace)


TIMES: StreamJoin = {"before": 2 * MINUTE, "after": 3 * MINUTE, "grace": MINUTE}
KINDS = {
    "tumbling": Windows.tumbling(2 * MINUTE, grace=2 * MINUTE),
    "hopping": Windows.hopping(3 * MINUTE, every=MINUTE, grace=2 * MINUTE),
    "sliding": Windows.sliding(2 * MINUTE, grace=2 * MINUTE),
    "session": Windows.session(MINUTE, grace=3 * MINUTE),
}
OPERATORS: dict[str, Operator] = {
    "join": lambda one, other: one.join(other, both, **TIMES),
    "left join": lambda one, other: one.left_join(other, both, **TIMES),
    "outer join": lambda one, other: one.outer_join(other, both, **TIMES),
    **{f"{kind} on update": windowed(windows, "on_update") for kind, windows in KINDS.items()},
    **{f"{kind} on close": windowed(windows, "on_close") for kind, windows in KINDS.items()},
    "cogrouped windows": cogrouped(KINDS["tumbling"]),
    "cogrouped sessions": cogrouped(KINDS["session"], merge),
    **{
        f"groups of cogrouped {kind}": grouped_again(windows, *[merge] * (kind == "session"))
        for kind, windows in KINDS.items()
    },
    **{f"look-ups of {kind}": looked_up(windows, *[merge] * (kind == "session")) for kind, windows in KINDS.items()},
    "look-ups of closed windows": looked_up(KINDS["hopping"], emit="on_close"),
    "suppressed windows": suppressed(KINDS["hopping"]),
    "suppressed sessions": suppressed(KINDS["session"]),
    "time limit": lambda one, _: one.to_table().suppress(until_time_limit(MINUTE, max_records=2)).to_stream(),
    "deduplicate": lambda one, _: one.deduplicate(2 * MINUTE),
    "aggregate": lambda one, _: one.group_by_key().aggregate(list, add, value=list).to_stream(),
    "table join": lambda one, other: one.left_join(other.to_table(), both),
    "versions": lambda one, other: one.left_join(other.to_table(versioned=4 * MINUTE), both),
    "versions, grace": versioned(2 * MINUTE),
    "tables": lambda one, other: one.to_table().outer_join(other.to_table(), both).to_stream(),
    "groups": lambda one, _: (
        one.to_table().group_by(lambda key, value: (value[-1], value), key=str).count().to_stream()
    ),
}
OF_OTHER_TASKS: dict[str, Operator] = {
    "foreign key": lambda one, other: (
        one.to_table().left_join(other.to_table(), both, foreign_key=lambda value: "abc"[len(value) % 3]).to_stream()
    ),
    "inner by foreign key": lambda one, other: (
        one.to_table().join(other.to_table(), both, foreign_key=lambda value: "abc"[len(value) % 3]).to_stream()
    ),
}
"""Answers come from other tasks at any pace, so only the last row of each key is compared."""


def topology(operator: Operator) -> Topology:
    builder = StreamsBuilder("small")
    one, other = (builder.stream(topic, key=str, value=str) for topic in ("one", "other"))
    operator(one, other).map_values(str, value=str).to("out")
    return builder.build()


# -- inputs


class Step(NamedTuple):
    """Records sent together; then the worker continues, restarts, or loses its disk."""

    records: list[tuple[str, str, int, int]]
    """Topic, key, how much later than the previous record, and how late."""
    end: str


STEPS = st.lists(
    st.builds(
        Step,
        st.lists(
            st.tuples(
                st.sampled_from(["one", "other"]),
                st.sampled_from(["a", "a", "b"]),
                st.sampled_from([0, 1, 3000, 20_000, 20_000, 90_000, 400_000]),
                st.sampled_from([0, 0, 0, 1, MINUTE, 3 * MINUTE, 4 * MINUTE, 8 * MINUTE]),
            ),
            min_size=1,
            max_size=12,
        ),
        st.sampled_from(["", "", "restart", "crash"]),
    ),
    min_size=2,
    max_size=6,
)
CHUNKS = st.sampled_from([1, 2, 7, 10_000])
FEW = st.sampled_from([0, 1, 2, 5])


def groups(steps: list[Step]) -> Iterator[tuple[list[DriverRecord], str]]:
    now, number = 10 * MINUTE - 1, 0  # the last moment of a segment, also of the one four minutes earlier
    for step in steps:
        sent = []
        for topic, key, later, late in step.records:
            now, number = now + later, number + 1
            sent.append(DriverRecord(topic, key, f"{topic}{number}", now - late))
        yield sent, step.end


def send(driver: Driver, steps: list[Step], *, disturbed: bool) -> None:
    for sent, end in groups(steps):
        driver.send_all(sent)
        if disturbed and end == "crash":
            driver.crash()
        if disturbed and end:
            driver.restart()


def written(driver: Driver) -> dict[str, list[DriverRecord]]:
    return {topic: driver.records(topic) for topic in ("out", "late") if topic in driver.log.topics()}


# -- tests

HALF = settings(max_examples=settings().max_examples // 2)
"""There are many operators: use half the examples."""


@pytest.mark.parametrize("name", OPERATORS)
@HALF
@given(steps=STEPS, chunk=CHUNKS, few=FEW)
def test_every_operator(name: str, steps: list[Step], chunk: int, few: int) -> None:
    oracle = Driver(topology(OPERATORS[name]), chunk=1, depth_first=True)
    send(oracle, steps, disturbed=False)
    with few_rows(few):
        small = Small(topology(OPERATORS[name]), chunk=chunk)
        send(small, steps, disturbed=True)
    assert written(small) == written(oracle)


@pytest.mark.parametrize("name", OPERATORS)
@HALF
@given(steps=STEPS, bad=st.sets(st.integers(1, 30), min_size=1, max_size=5), chunk=CHUNKS)
def test_a_skipped_record_leaves_no_trace(name: str, steps: list[Step], bad: set[int], chunk: int) -> None:
    """The operator has processed it, together with uncommitted records, when another step fails."""
    wrong = {f"{topic}{number}" for topic in ("one", "other") for number in bad}
    failing = Driver(with_a_check(OPERATORS[name], wrong, fails=True), chunk=chunk, on_error="skip")
    filtering = Driver(with_a_check(OPERATORS[name], wrong, fails=False), chunk=chunk)
    for driver in (failing, filtering):
        send(driver, steps, disturbed=False)
    assert written(failing) == written(filtering)


def with_a_check(operator: Operator, wrong: set[str], *, fails: bool) -> Topology:
    """Wrong values reach the operator and then fail in the check, or they are filtered out before."""

    def check(value: str) -> str:
        if value in wrong:
            raise ValueError(value)
        return value

    builder = StreamsBuilder("small")
    one, other = (
        builder.stream(topic, key=str, value=str).filter(lambda _, value: fails or value not in wrong)
        for topic in ("one", "other")
    )
    operator(one, other).map_values(str, value=str).to("out")
    for stream in (one, other):
        stream.map_values(check).to("checked")
    return builder.build()


@pytest.mark.parametrize("name", OF_OTHER_TASKS)
@HALF
@given(steps=STEPS, chunk=CHUNKS)
def test_the_last_rows_of_joins_with_other_tasks(name: str, steps: list[Step], chunk: int) -> None:
    oracle, small = Driver(topology(OF_OTHER_TASKS[name])), Small(topology(OF_OTHER_TASKS[name]), chunk=chunk)
    send(oracle, steps, disturbed=False)
    send(small, steps, disturbed=True)
    assert last_rows(small) == last_rows(oracle)


def last_rows(driver: Driver) -> dict[str, str]:
    return {key: value for key, value in dict(driver.read("out")).items() if value != "None"}


@pytest.mark.parametrize("pace", [1, 1000])
@given(topology=topologies(), sent=records(), chunk=CHUNKS, few=FEW, cuts=st.sets(st.integers(0, 25), max_size=3))
def test_any_topology(
    pace: int, topology: Topology, sent: list[DriverRecord], chunk: int, few: int, cuts: set[int]
) -> None:
    """At the faster pace, windows and segments expire."""
    sent = [record._replace(timestamp=record.timestamp * pace) for record in sent]
    note(topology.describe())
    drivers = Driver(topology, chunk=1, depth_first=True), Small(topology, chunk=chunk)
    with few_rows(few):
        for driver in drivers:
            for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(sent)], strict=True):
                driver.send_all(sent[start:stop])
                if driver is drivers[1]:
                    driver.restart()
    topics = [topic for topic in (*OUTPUTS, *GROUPED, FOREIGN) if topic in drivers[0].log.topics()]
    assert {topic: drivers[1].records(topic) for topic in topics} == {
        topic: drivers[0].records(topic) for topic in topics
    }


@pytest.mark.parametrize("windows", [Windows.tumbling(MINUTE), Windows.hopping(MINUTE, every=20_000)])
def test_cogrouped_streams_of_which_one_is_far_behind(windows: Any) -> None:
    """Its windows have expired by the other stream's time, and are gone for it too, whether deleted yet or not."""

    def results(driver: Driver) -> list[tuple[str, str]]:
        for topic, time in [("one", 0), ("one", 5 * MINUTE), ("one", 5 * MINUTE), ("other", 1), ("other", 2)]:
            driver.send(topic, str(time), key="a", timestamp=time)
        return driver.read("out")

    app = topology(cogrouped(windows))
    assert ("a 0 60000", "['2']") in results(Driver(app, chunk=1))
    assert results(Driver(app, chunk=1)) == results(Small(app, chunk=1))
