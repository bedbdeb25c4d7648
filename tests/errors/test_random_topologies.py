"""Rows fail at random in random topologies: it is as if their records had never been sent."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from streamtopo import Topology
from streamtopo.testing import Driver, DriverRecord
from tests.exactness.graphs import records, topologies
from tests.exactness.test_chunks import outputs, rows
from tests.exactness.test_random_restarts import Plan, compare, kills

DEAD_LETTER, AT_ONCE = "dead-letter", "retry:2:0ms:dead-letter"
answers = st.sampled_from([DEAD_LETTER, AT_ONCE])


def some(name: str, key: Any, value: Any) -> bool:
    return crc32(f"{name} {key} {value}".encode()) % 12 == 0


def letters(driver: Driver) -> list[dict[str, bytes | None]]:
    """Which records they are; if one fails in several branches, any of these nodes may be named."""
    found = []
    for letter in driver.dead_letters():
        told = {name.partition("errors.")[2]: text for name, text in letter.headers}
        place = {name: told[name] for name in ("topic", "offset", "call") if name in told}
        found.append(place | {"key": letter.key, "value": letter.value})
    return sorted(found, key=str)


@pytest.mark.parametrize("chunk", [1, 2, 7, 10_000])
@given(topology=topologies(fails=some), sent=records(), answer=answers)
def test_any_chunk_size_leaves_out_the_same(
    chunk: int, topology: Topology, sent: list[DriverRecord], answer: str
) -> None:
    oracle = Driver(topology, chunk=1, depth_first=True, on_error=DEAD_LETTER)
    driver = Driver(topology, chunk=chunk, on_error=answer)
    oracle.send_all(sent)
    driver.send_all(sent)
    note(topology.describe())
    found = letters(driver)
    assert found == letters(oracle)
    assert driver.worker.metrics().dead_letters == len(found)
    assert outputs(driver) == outputs(oracle)
    assert rows(driver) == rows(oracle)


@given(topology=topologies(fails=some), sent=records(), cache=st.sampled_from([0, 100_000]))
def test_it_is_as_if_the_records_had_never_been_sent(topology: Topology, sent: list[DriverRecord], cache: int) -> None:
    """Instead of them, others are sent that are left out when they are read, so that offsets stay as they are."""
    failing, calm = (Driver(topology, cache=cache, on_error="dead_letter") for _ in range(2))
    places: dict[str, list[int]] = {"in-1": [], "in-2": []}
    for number, record in enumerate(sent):
        failing.send_all([record])
        places[record.topic].append(number)
    found = letters(failing)
    wrong = {places[_text(one["topic"])][int(_text(one["offset"]))] for one in found if "topic" in one}
    for number, record in enumerate(sent):
        calm.send_all([record._replace(timestamp=-1) if number in wrong else record])
    note(topology.describe())
    assert letters(calm) == [one for one in found if "topic" not in one]
    assert outputs(calm) == outputs(failing)
    assert rows(calm) == rows(failing)


@given(
    topology=topologies(fails=some), sent=records(), plan=kills, chunk=st.sampled_from([1, 3, 10_000]), answer=answers
)
def test_kills_change_nothing(
    topology: Topology, sent: list[DriverRecord], plan: Plan, chunk: int, answer: str
) -> None:
    disturbed, calm = (
        Driver(topology, on_error=answer, chunk=chunk),
        Driver(topology, on_error=DEAD_LETTER, chunk=chunk),
    )
    compare(topology, sent, plan, disturbed, calm)
    assert letters(disturbed) == letters(calm)


def _text(header: bytes | None) -> str:
    return (header or b"").decode()
