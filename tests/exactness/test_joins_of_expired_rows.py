"""Joins with windowed tables do not find expired rows, whether these are in memory, in the store, or gone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo import KStream, KTable, StreamsBuilder, Topology, Windowed, until_time_limit
from streamtopo.testing import Driver, DriverRecord
from tests.exactness.test_expired_rows import KINDS, MINUTE


def both(one: str | None, other: str | None) -> str:
    return f"{one}+{other}"


def same(_: Windowed, row: str | None) -> str | None:
    return row


def begins_with(digit: str, _: str, value: str) -> bool:
    return value[0] == digit


Join = Callable[[KTable, KTable], KStream]
JOINS: dict[str, Join] = {
    "inner": lambda left, right: left.join(right, both).to_stream(),
    "outer": lambda left, right: left.outer_join(right, both).to_stream(),
    "filtered": lambda left, right: left.left_join(right.filter(lambda *_: True), both).to_stream(),
    "transformed": lambda left, right: left.left_join(right.transform_values(same), both).to_stream(),
    "suppressed": lambda left, right: left.left_join(right.suppress(until_time_limit(0)), both).to_stream(),
    "stream": lambda left, right: left.to_stream().left_join(right, both),
}
BY_FOREIGN_KEY: dict[str, Join] = {
    "foreign key": lambda left, right: left.left_join(
        right, both, foreign_key=lambda window, _: window, with_key=True
    ).to_stream()
}


def joined(kind: str, join: Join) -> Topology:
    builder = StreamsBuilder("expired")
    left, right = (
        builder.stream(topic, key=str, value=str).group_by_key().windowed_by(KINDS[kind]).reduce(str.__add__)
        for topic in ("left", "right")
    )
    join(left, right).map(lambda window, row: (f"{window.key} {window.start}", row), key=str).to("out")
    return builder.build()


@pytest.mark.parametrize("name", JOINS | BY_FOREIGN_KEY)
@pytest.mark.parametrize("kind", ["tumbling", "sliding", "session"])
@pytest.mark.parametrize("cache", [0, 1 << 20])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_row_is_found_until_it_expires(kind: str, name: str, cache: int, restarts: bool) -> None:
    """As in Kafka Streams, unless its cache still has the row."""
    first, kept = {"tumbling": (10, 4), "sliding": (9, 6), "session": (11, 4)}[kind]
    expires = (first + kept + (2 if kind == "sliding" else 0)) * MINUTE  # sliding windows end at their record
    found = []
    for newest in (expires - 1, expires):
        driver = Driver(joined(kind, (JOINS | BY_FOREIGN_KEY)[name]), cache=cache)
        for topic, key, value, time in [
            ("right", "k", "a", 11 * MINUTE),
            ("right", "other", "b", newest),
            ("left", "k", "c", 11 * MINUTE),
        ]:
            driver.send(topic, value, key=key, timestamp=time)
            if restarts:
                driver.restart()
        found += [row for key, row in driver.read("out") if key == f"k {first * MINUTE}" and row.startswith("c")]
    assert found == (["c+a"] if name == "inner" else ["c+a", "c+None"])


RECORDS = st.lists(
    st.builds(
        lambda topic, key, value, minute: DriverRecord(topic, key, value, minute * MINUTE),
        st.sampled_from(["left", "right"]),
        st.sampled_from("kl"),
        st.sampled_from("abc"),
        st.sampled_from([10, 11, 12, 13, 15, 20, 40]),
    ),
    min_size=3,
    max_size=30,
)


@pytest.mark.parametrize("name", JOINS)
@given(
    kind=st.sampled_from(list(KINDS)),
    cache=st.sampled_from([0, 1 << 20]),
    records=RECORDS,
    cuts=st.sets(st.integers(1, 29), max_size=4),
    chunk=st.sampled_from([1, 10_000]),
)
def test_restarts_change_nothing(
    name: str, kind: str, cache: int, records: list[DriverRecord], cuts: set[int], chunk: int
) -> None:
    topology = joined(kind, JOINS[name])
    one, other = Driver(topology, cache=cache), Driver(topology, cache=cache, chunk=chunk)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(records)], strict=True):
        for driver in (one, other):
            driver.send_all(records[start:stop])
        other.restart()
    assert other.records("out") == one.records("out")


@pytest.mark.parametrize("cache", [0, 1 << 20])
@pytest.mark.parametrize("together", [False, True])
def test_an_update_of_an_expired_row_is_forwarded_but_not_found_by_joins(cache: int, together: bool) -> None:
    """With the cache, a row put in the same commit is found."""
    added = []

    def add(_: str, value: str, row: str) -> str:
        added.append(value)
        return row + value

    builder = StreamsBuilder("expired")
    all_in_order = builder.stream("in", key=str, value=str)
    one, other, third = (all_in_order.filter(partial(begins_with, digit)) for digit in "123")
    groups = one.group_by_key().cogroup(add).cogroup(other.group_by_key(), add)
    left = groups.windowed_by(KINDS["tumbling"]).aggregate(str, value=str)
    right = third.group_by_key().windowed_by(KINDS["tumbling"]).reduce(str.__add__)
    left.join(right, both).to_stream(lambda window, _: window.key, key=str).to("out")
    rows = [("2a", 11), ("1b", 60), ("2c", 11), ("3d", 11)]
    records = [DriverRecord("in", "k", value, minute * MINUTE) for value, minute in rows]
    driver = Driver(builder.build(), cache=cache)
    for some in [records] if together else [[record] for record in records]:
        driver.send_all(some)
    assert driver.read("out") == ([("k", "2a+3d")] if together and cache else [])
    assert added == ["2a", "1b", "2c"], "nothing failed and was repeated"
