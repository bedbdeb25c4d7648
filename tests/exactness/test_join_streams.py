"""Joins of streams compared with a model that looks at all earlier records."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo import StreamsBuilder, Topology
from streamtopo.operators.joins import recent, unmatched
from streamtopo.testing import Driver, DriverRecord

Output = tuple[Any, Any, int]
BEFORE, AFTER, GRACE = 2, 1, 1


class Sent(NamedTuple):
    topic: str
    key: str | None
    time: int


def joined(how: str, before: int = BEFORE, after: int = AFTER, grace: int = GRACE) -> Topology:
    builder = StreamsBuilder("joined")
    left, right = (builder.stream(topic, key=str, value=list) for topic in ("left", "right"))
    join: Any = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[how]
    join(right, pair, before=before, after=after, grace=grace).to("out")
    return builder.build()


def pair(left: list[Any] | None, right: list[Any] | None) -> list[Any]:
    """Change the arguments in place: no other reader may see that."""
    for value in (left, right):
        if value is not None:
            value.append("seen")
    return [left and left[0], right and right[0]]


class Model:
    """Keep all records, and compute the results of each new one."""

    def __init__(self, how: str) -> None:
        self.alone = {"inner": "", "left": "left", "outer": "left right"}[how].split()
        self.kept: list[tuple[Sent, int]] = []
        self.seen = {"left": -1, "right": -1}
        self.pending: list[tuple[Sent, int]] = []
        self.now = -1
        self.lowest = -1

    def take(self, sent: Sent, number: int) -> Iterator[Output]:
        self.now = max(self.now, sent.time)
        if sent.key is None:
            if sent.topic in self.alone:
                yield None, ends(sent, number, None), sent.time
            return
        if sent.time == self.now:
            yield from self.closed(sent.topic)
        found = [(row, other) for row, other in self.kept if self.matches(sent, row)]
        for row, other in sorted(found, key=lambda one: one[0].time):
            yield sent.key, ends(sent, number, other), max(sent.time, row.time)
            self.pending = [one for one in self.pending if one[0] != row]
        if not found and sent.topic in self.alone:
            if sent.time + ahead(sent.topic) < self.now:
                yield sent.key, ends(sent, number, None), sent.time
            else:
                self.pending.append((sent, number))
                self.lowest = sent.time if self.lowest < 0 else min(self.lowest, sent.time)
        self.seen[sent.topic] = max(self.seen[sent.topic], sent.time)
        if sent.time > self.seen[sent.topic] - (BEFORE + AFTER + GRACE):
            self.kept.append((sent, number))

    def matches(self, sent: Sent, row: Sent) -> bool:
        if row.topic == sent.topic or row.key != sent.key:
            return False
        if row.time <= self.seen[row.topic] - (BEFORE + AFTER + GRACE):
            return False
        left, right = (sent, row) if sent.topic == "left" else (row, sent)
        return left.time - BEFORE <= right.time <= left.time + AFTER

    def closed(self, topic: str) -> Iterator[Output]:
        """Yield closed rows by time, right before left, then key. Stop when rows of both sides still have to wait."""
        if self.lowest < 0 or self.lowest + ahead(topic) + GRACE >= self.now:
            return
        self.lowest = -1
        waiting: set[str] = set()
        for row, number in sorted(self.pending, key=lambda one: (one[0].time, one[0].topic == "left", one[0].key)):
            self.lowest = row.time
            if len(waiting) == 2:
                return
            if row.time + ahead(row.topic) + GRACE >= self.now:
                waiting.add(row.topic)
            else:
                self.pending.remove((row, number))
                yield row.key, ends(row, number, None), row.time


def ahead(topic: str) -> int:
    return AFTER if topic == "left" else BEFORE


def ends(sent: Sent, number: int, other: int | None) -> list[int | None]:
    return [number, other] if sent.topic == "left" else [other, number]


def model(how: str, sent: list[Sent]) -> list[Output]:
    known = Model(how)
    return [row for number, one in enumerate(sent) for row in known.take(one, number)]


def record(one: Sent, number: int) -> DriverRecord:
    return DriverRecord(one.topic, one.key, [number], one.time)


def outputs(driver: Driver) -> list[Output]:
    return [(row.key, row.value, row.timestamp) for row in driver.records("out")]


def one_by_one(driver: Driver, sent: list[Sent], restarts: frozenset[int] = frozenset()) -> list[Output]:
    for number, one in enumerate(sent):
        driver.send_all([record(one, number)])
        if number in restarts:
            driver.restart()
    return outputs(driver)


HOW = pytest.mark.parametrize("how", ["inner", "left", "outer"])


@HOW
@pytest.mark.parametrize("topics", list(product(["left", "right"], repeat=3)))
def test_all_orders_of_three_records(how: str, topics: tuple[str, ...]) -> None:
    """Two sides, and times whose distances are on, inside and outside every boundary."""
    for times in product([0, 1, 2, 3, 5], repeat=3):
        sent = [Sent(topic, "k", time) for topic, time in zip(topics, times, strict=True)]
        assert one_by_one(Driver(joined(how)), sent) == model(how, sent)


SENT = st.builds(Sent, st.sampled_from(["left", "right"]), st.sampled_from(["a", "b", "c", None]), st.integers(0, 12))


@HOW
@given(sent=st.lists(SENT, max_size=6))
def test_any_six_records(how: str, sent: list[Sent]) -> None:
    assert one_by_one(Driver(joined(how)), sent) == model(how, sent)


@HOW
@pytest.mark.parametrize("chunk", [1, 2, 7, 10_000])
@given(sent=st.lists(SENT, min_size=10, max_size=60), data=st.data())
def test_any_records_in_any_chunks(how: str, chunk: int, sent: list[Sent], data: st.DataObject) -> None:
    """A task takes records in order of time, so the model is given that order."""
    sent = sorted(sent, key=lambda one: one.time + (one.topic == "right") / 2)
    driver = Driver(joined(how), chunk=chunk)
    driver.send_all([record(one, number) for number, one in enumerate(sent)])
    assert outputs(driver) == model(how, sent)


@HOW
@pytest.mark.parametrize("kept", [0, 1000])
@given(sent=st.lists(SENT, max_size=40), restarts=st.frozensets(st.integers(0, 40), max_size=4))
def test_restarts_and_rows_that_are_not_in_memory(
    how: str, kept: int, sent: list[Sent], restarts: frozenset[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent, "_KEPT", kept)
        patch.setattr(unmatched, "_LISTED", 3 if kept == 0 else 100_000)
        assert one_by_one(Driver(joined(how)), sent, restarts) == model(how, sent)
