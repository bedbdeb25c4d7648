"""Joins of tables compared with models that compute, for one key and record by record, what Kafka Streams emits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo import KTable, StreamsBuilder, Topology, Windows, until_time_limit
from streamtopo.testing import Driver, DriverRecord

KINDS = ["inner", "left", "outer"]
CHUNKS = [1, 2, 7, 10_000]
Update = tuple[str, Any]
"""A topic, and a value or None."""
Output = tuple[Any, int]
"""A value and a timestamp."""


def pair(left: Any, right: Any) -> list[Any]:
    return [left, right]


def joined(kind: str, left: KTable, right: KTable, **options: Any) -> KTable:
    joins: dict[str, Any] = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}
    table: KTable = joins[kind](right, pair, value=list, **options)
    return table


# -- by their keys


def by_key(kind: str, name: str | None) -> Topology:
    builder = StreamsBuilder("joins")
    left, right = (builder.table(topic, key=int, value=str) for topic in ("left", "right"))
    joined(kind, left, right, name=name).to_stream().to("out")
    return builder.build()


def model(kind: str, updates: Iterable[tuple[str, Any, int]]) -> Iterator[Output]:
    rows: dict[str, Output | None] = {"left": None, "right": None}
    for topic, value, time in updates:
        before, rows[topic] = rows[topic], None if value is None else (value, time)
        other = rows["right" if topic == "left" else "left"]
        if other is None and (kind == "inner" or (kind == "left" and topic == "right")):
            continue
        if other is None and before is None and value is None:
            continue
        yield result(kind, rows["left"], rows["right"]), max(time, -1 if other is None else other[1])


def result(kind: str, left: Output | None, right: Output | None) -> Any:
    if (left is None and kind != "outer") or (right is None and kind == "inner") or left is right is None:
        return None
    return [left and left[0], right and right[0]]


def outputs(driver: Driver) -> dict[Any, list[Output]]:
    found = defaultdict(list)
    for record in driver.records("out"):
        found[record.key].append((record.value, record.timestamp))
    return found


SEQUENCES = [list(sequence) for sequence in product(product(("left", "right"), (True, False)), repeat=6)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", CHUNKS[1:])
def test_every_sequence_of_six_updates(kind: str, chunk: int) -> None:
    """Each sequence has its own key, all in one batch. Shorter sequences are prefixes of these."""
    driver = Driver(by_key(kind, "joined"), chunk=chunk)
    updates = {
        key: [(topic, f"{topic}{time}" if there else None, time) for time, (topic, there) in enumerate(sequence)]
        for key, sequence in enumerate(SEQUENCES)
    }
    driver.send_all(
        DriverRecord(topic, key, value, time)
        for step in range(6)
        for key, sequence in updates.items()
        for topic, value, time in [sequence[step]]
    )
    assert outputs(driver) == {
        key: found for key, sequence in updates.items() if (found := list(model(kind, sequence)))
    }


@st.composite
def updates_of_keys(draw: Any) -> list[DriverRecord]:
    update = st.tuples(
        st.sampled_from(["left", "right"]), st.integers(0, 2), st.sampled_from(["a", "b", None]), st.integers(0, 9)
    )
    return [DriverRecord(*one) for one in draw(st.lists(update, max_size=30))]


@pytest.mark.parametrize("kind", KINDS)
@given(sent=updates_of_keys(), crash=st.integers(0, 30), name=st.sampled_from(["joined", None]))
def test_random_updates_out_of_order_with_a_crash(
    kind: str, sent: list[DriverRecord], crash: int, name: str | None
) -> None:
    driver = Driver(by_key(kind, name), partitions=2)
    for place, record in enumerate(sent):
        if place == crash:
            driver.crash()
            driver.restart()
        driver.send(record.topic, record.value, key=record.key, timestamp=record.timestamp)
    expected = {
        key: found
        for key in range(3)
        if (found := list(model(kind, [(one.topic, one.value, one.timestamp) for one in sent if one.key == key])))
    }
    assert outputs(driver) == expected
    if name is not None:
        last = {key: found[-1][0] for key, found in expected.items() if found[-1][0] is not None}
        assert dict(driver.store(name).all()) == last


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["joined", None])
@given(sent=updates_of_keys(), cuts=st.sets(st.integers(1, 30), max_size=4))
def test_with_the_cache_the_last_update_is_that_of_the_final_rows(
    kind: str, name: str | None, sent: list[DriverRecord], cuts: set[int]
) -> None:
    driver = Driver(by_key(kind, name), cache=100_000)
    emitted: dict[int, list[Output]] = {}
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 31], strict=True):
        driver.send_all(sent[start:stop])
        for key, found in outputs(driver).items():
            emitted.setdefault(key, []).extend(found)
    rows = last_rows(sent)
    for key in range(3):
        expected = result(kind, rows.get(("left", key)), rows.get(("right", key)))
        last = emitted[key][-1][0] if key in emitted else None
        assert last == expected


def gathered(kind: str) -> Topology:
    """Collect all joined values: each is added when it appears and removed when it goes."""
    builder = StreamsBuilder("gathered")
    left, right = (builder.table(topic, key=int, value=str) for topic in ("left", "right"))
    values = joined(kind, left, right).group_by(lambda _, value: (0, value))
    values.aggregate(list, lambda _, value, all: [*all, value], lambda _, value, all: without(value, all), name="all")
    return builder.build()


def without(value: Any, all: list[Any]) -> list[Any]:
    all.remove(value)
    return all


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cache", [0, 100_000])
@given(sent=updates_of_keys(), cuts=st.sets(st.integers(1, 30), max_size=4))
def test_old_values_are_the_values_forwarded_before(
    kind: str, cache: int, sent: list[DriverRecord], cuts: set[int]
) -> None:
    driver = Driver(gathered(kind), cache=cache)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 31], strict=True):
        driver.send_all(sent[start:stop])
    rows = last_rows(sent)
    expected = [result(kind, rows.get(("left", key)), rows.get(("right", key))) for key in range(3)]
    found = dict(driver.store("all").all()).get(0, [])
    assert sorted(map(str, found)) == sorted(str(value) for value in expected if value is not None)


def last_rows(sent: list[DriverRecord]) -> dict[tuple[str, int], Output]:
    rows = {(one.topic, one.key): (one.value, one.timestamp) for one in sent}
    return {place: row for place, row in rows.items() if row[0] is not None}


# -- by a foreign key


def by_foreign_key(kind: str, name: str | None = None) -> Topology:
    builder = StreamsBuilder("foreign")
    left = builder.table("left", key=str, value=list)
    right = builder.table("right", key=str, value=str)
    joined(kind, left, right, foreign_key=lambda value: value[1], name=name).to_stream().to("out")
    return builder.build()


class ForeignModel:
    """Results of each record, if it is finished before the next one arrives."""

    def __init__(self, kind: str) -> None:
        self.left_too = kind == "left"
        self.left: dict[str, list[Any]] = {}
        self.right: dict[str, Output] = {}

    def take(self, topic: str, key: str, value: Any, time: int) -> Iterator[tuple[str, Any, int]]:
        if topic == "right":
            self.right.pop(key, None)
            if value is not None:
                self.right[key] = (value, time)
            for own in sorted(own for own, row in self.left.items() if row[1] == key):
                yield own, self.joined(own), time
            return
        old = self.left.pop(key, None)
        if value is not None:
            self.left[key] = value
        before = None if old is None else old[1]
        now = None if value is None else value[1]
        if self.left_too:
            if old is not None or value is not None:
                yield key, self.joined(key), self.time(now, time)
        elif now is None:
            if before is not None:
                yield key, None, self.time(before, time)
        elif now in self.right or before not in (None, now):
            yield key, self.joined(key), self.time(now, time)

    def joined(self, key: str) -> Any:
        row = self.left.get(key)
        other = None if row is None else self.right.get(row[1])
        return None if row is None or (other is None and not self.left_too) else [row, other and other[0]]

    def time(self, foreign_key: str | None, time: int) -> int:
        return max(time, self.right[foreign_key][1]) if foreign_key in self.right else time


LEFT = [("left", key, value) for key in "ab" for value in (["v", "x"], ["v", "y"], ["v", None], None)]
ALPHABET = [*LEFT, ("right", "x", "r"), ("right", "x", None), ("right", "y", "r")]
FOREIGN = [list(sequence) for sequence in product(ALPHABET, repeat=3)]
TIMES = [5, 3, 9]


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_every_sequence_of_three_updates_by_a_foreign_key(kind: str) -> None:
    """Each sequence has its own keys; a value says which update it is from."""
    driver = Driver(by_foreign_key(kind, "joined"))
    models = [ForeignModel(kind) for _ in FOREIGN]
    for step, time in enumerate(TIMES):
        sent = [foreign_update(place, sequence, step) for place, sequence in enumerate(FOREIGN)]
        driver.send_all(DriverRecord(*one, time) for one in sent)
        expected: dict[Any, list[Output]] = {}
        for one, update in zip(models, sent, strict=True):
            for key, value, when in one.take(*update, time):
                expected.setdefault(key, []).append((value, when))
        assert outputs(driver) == expected


def foreign_update(place: int, sequence: Sequence[tuple[str, str, Any]], step: int) -> tuple[str, str, Any]:
    topic, key, value = sequence[step]
    if isinstance(value, list):
        value = [f"v{step}", value[1] and f"{place}{value[1]}"]
    return topic, f"{place}{key}", value


@pytest.mark.parametrize("kind", ["inner", "left"])
@given(data=st.data())
def test_random_updates_by_a_foreign_key_with_crashes(kind: str, data: st.DataObject) -> None:
    driver, expected = Driver(by_foreign_key(kind, "joined"), partitions=3), ForeignModel(kind)
    for step in range(data.draw(st.integers(1, 25))):
        topic, key, value = data.draw(st.sampled_from(ALPHABET))
        value = [f"v{step}", value[1]] if isinstance(value, list) else value and f"r{step}"
        time = data.draw(st.integers(0, 9))
        driver.send(topic, value, key=key, timestamp=time)
        wanted = list(expected.take(topic, key, value, time))
        got = [(one.key, one.value, one.timestamp) for one in driver.records("out")]
        assert sorted(got, key=str) == sorted(wanted, key=str)
        if data.draw(st.booleans()):
            driver.crash()
            driver.restart()


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("cache", [0, 100_000])
@given(
    sent=st.lists(st.tuples(st.sampled_from(ALPHABET), st.integers(0, 9)), max_size=30),
    chunk=st.sampled_from(CHUNKS),
    cuts=st.sets(st.integers(0, 30), max_size=3),
)
def test_racing_updates_end_in_the_join_of_the_final_rows(
    kind: str, cache: int, sent: list[tuple[tuple[str, str, Any], int]], chunk: int, cuts: set[int]
) -> None:
    driver = Driver(by_foreign_key(kind, "joined"), partitions=2, chunk=chunk, cache=cache)
    expected = ForeignModel(kind)
    records = [
        DriverRecord(
            topic, key, [f"v{step}", value[1]] if isinstance(value, list) else value and f"{key}{step}", time, -1
        )
        for step, ((topic, key, value), time) in enumerate(sent)
    ]
    if kind == "inner":
        records = [record for record in records if not turned_up_elsewhere(record, records)]
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 31], strict=True):
        driver.send_all(records[start:stop])
    for topic, key, value, time, *_ in records:
        list(expected.take(topic, key, value, time))
    for _, value in driver.read("out"):
        assert value is None or value[1] is None or value[1][0] == value[0][1], (
            "joined with a row that it does not name"
        )
    wanted = {key: value for key in "ab" if (value := expected.joined(key)) is not None}
    assert dict(driver.store("joined").all()) == wanted


def turned_up_elsewhere(record: DriverRecord, records: list[DriverRecord]) -> bool:
    """In an inner join, a deleted row that returns with another foreign key may be answered first: see the docs."""
    foreign_key = record.value and record.value[1]
    return (
        record.topic == "left"
        and foreign_key not in (None, "x" if record.key == "a" else "y")
        and any(
            one.topic == "left" and one.key == record.key and (one.value is None or one.value[1] is None)
            for one in records
        )
    )


@pytest.mark.parametrize("chunk", [1, 10_000])
@pytest.mark.parametrize("kind", ["suppressed", "kept"])
def test_windowed_tables_are_joined_although_their_stores_encode_keys_differently(kind: str, chunk: int) -> None:
    """JSON keys are compared by their bytes, and the stores of windowed aggregations add bytes for the window."""

    def joined(key: type, of: Any) -> list[Any]:
        builder = StreamsBuilder("windowed")
        grouped = builder.stream("in", key=key, value=str).group_by_key()
        counts = grouped.windowed_by(Windows.tumbling(100)).count()
        if kind == "suppressed":
            other = counts.suppress(until_time_limit(10))
        else:
            other = counts.filter(lambda _, count: count != 2, name="kept")
        counts.left_join(other, lambda one, two: [one, two], value=list).to_stream().to("out-1")
        other.left_join(counts, lambda one, two: [one, two], value=list).to_stream().to("out-2")
        driver = Driver(builder.build(), chunk=chunk)
        driver.send_all(DriverRecord("in", of(name), "x", time) for name, time in zip("aababba", range(7), strict=True))
        driver.send_all(
            DriverRecord("in", of(name), "x", time) for name, time in zip("abab", range(20, 24), strict=True)
        )
        return [driver.read("out-1"), driver.read("out-2")]

    plain = joined(str, str)
    assert [[value for _, value in rows] for rows in joined(dict, lambda name: {"is": name})] == [
        [value for _, value in rows] for rows in plain
    ]
    assert any(None in value for _, value in plain[0])
    assert any(None not in value for _, value in plain[0])


def test_a_join_with_a_suppressed_table_sees_the_last_emitted_row() -> None:
    """As in Kafka Streams (random case 990021): while a row is held back, joins see the one before."""
    builder = StreamsBuilder("suppressed")
    table = builder.table("in", key=str, value=str)
    table.suppress(until_time_limit(1)).join(table, lambda one, other: f"{one}-{other}").to_stream().to("out")
    driver = Driver(builder.build())
    sent = [("B", "2", 4), ("A", "1", 6), ("A", "2", 0), ("B", "2", 11), ("A", "30", 39)]
    messages = []
    for key, value, time in sent:
        driver.send("in", value, key=key, timestamp=time)
        messages.append([(record.key, record.value, record.timestamp) for record in driver.records("out")])
    assert messages == [
        [],
        [("B", "2-2", 4)],
        [],
        [("A", "2-2", 0), ("B", "2-2", 11)],
        [("B", "2-2", 11), ("A", "2-30", 39)],
    ]
