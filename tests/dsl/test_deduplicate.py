"""Repeated records are dropped: by key or by an id, for a time, in any order, and after a crash."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo import StreamsBuilder
from streamtopo.errors import TopologyError
from streamtopo.testing import Driver, DriverRecord


def driver_of(chunk: int = 10_000, **options: Any) -> Driver:
    builder = StreamsBuilder("once")
    builder.stream("in", key=str, value=str).deduplicate("10s", **options).to("out")
    return Driver(builder.build(), chunk=chunk)


def sent(*rows: tuple[str | None, str, int]) -> list[DriverRecord]:
    return [DriverRecord("in", *row) for row in rows]


def test_the_first_record_of_each_key_passes_and_the_next_after_the_period() -> None:
    driver = driver_of()
    driver.send_all(sent(("a", "1", 0), ("a", "2", 9_999), ("b", "3", 5), ("a", "4", 10_000), ("a", "5", 19_999)))
    assert driver.read("out") == [("a", "1"), ("b", "3"), ("a", "4")]


def test_an_id_taken_from_the_value() -> None:
    driver = driver_of(by=lambda key, value: value.split()[0])
    driver.send_all(sent(("a", "id1 x", 0), ("a", "id1 y", 1), ("a", "id2 z", 2)))
    assert driver.read("out") == [("a", "id1 x"), ("a", "id2 z")]


def test_an_earlier_record_after_the_one_that_passed_is_a_duplicate() -> None:
    driver = driver_of()
    driver.send_all(sent(("a", "late", 20_000), ("a", "same", 10_001), ("a", "earlier", 10_000)))
    assert driver.read("out") == [("a", "late"), ("a", "earlier")]


def test_records_without_an_id_pass() -> None:
    driver = driver_of(by=lambda key, value: None)
    driver.send_all(sent(("a", "1", 0), ("a", "1", 0), (None, "1", 0)))
    assert len(driver.read("out")) == 3


def test_records_that_passed_are_remembered_after_a_crash() -> None:
    driver = driver_of(name="passed")
    driver.send("in", "1", key="a", timestamp=0)
    driver.crash()
    driver.restart()
    driver.send("in", "2", key="a", timestamp=1)
    assert driver.read("out") == [("a", "1")]


def test_the_period_must_be_a_duration() -> None:
    with pytest.raises(TopologyError, match="within=0; give 1 ms or more"):
        StreamsBuilder("once").stream("in").deduplicate(0)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 50_000)), max_size=20), st.sampled_from([1, 3, 10_000]))
def test_the_result_is_that_of_a_model(rows: list[tuple[str, int]], chunk: int) -> None:
    """The model excludes records so late that the ones that passed near them are forgotten."""
    passed: list[tuple[str, int]] = []
    newest = 0
    for key, time in rows:
        newest = max([newest, *(at for _, at in passed)])
        known = [at for name, at in passed if name == key and at > newest - 10_000]
        if not any(abs(time - at) < 10_000 for at in known):
            passed.append((key, time))
    driver = driver_of(chunk)
    driver.send_all(sent(*[(key, str(time), time) for key, time in rows]))
    assert driver.read("out") == [(key, str(time)) for key, time in passed]
