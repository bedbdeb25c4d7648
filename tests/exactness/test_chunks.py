"""Results do not depend on where chunks are cut. The reference is one record at a time, depth first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from streamtopo import StreamsBuilder
from streamtopo.testing import Driver, DriverRecord
from streamtopo.topology import Topology
from tests.exactness.graphs import GROUPED, OUTPUTS, records, topologies


def outputs(driver: Driver) -> dict[str, list[DriverRecord]]:
    return {topic: driver.records(topic) for topic in (*OUTPUTS, *GROUPED) if topic in driver.log.topics()}


def rows(driver: Driver) -> dict[str, list[Any]]:
    """Return the contents of every store, of any kind."""
    tasks = [task for _, task in sorted(driver.worker.tasks.items())]
    return {name: list(state.scan(b"", None)) for task in tasks for name, state in task.states.items()}


@pytest.mark.parametrize("chunk", [1, 2, 7, 10_000])
@given(topology=topologies(), sent=records())
def test_any_chunk_size_gives_the_depth_first_result(chunk: int, topology: Topology, sent: list[DriverRecord]) -> None:
    oracle = Driver(topology, chunk=1, depth_first=True)
    driver = Driver(topology, chunk=chunk)
    oracle.send_all(sent)
    driver.send_all(sent)
    note(topology.describe())
    assert outputs(driver) == outputs(oracle)
    assert rows(driver) == rows(oracle)


@given(topology=topologies(), sent=records(), cut=st.integers(0, 25))
def test_a_crash_between_records_changes_nothing(topology: Topology, sent: list[DriverRecord], cut: int) -> None:
    undisturbed, crashed = Driver(topology), Driver(topology)
    for driver in (undisturbed, crashed):
        driver.send_all(sent[:cut])
        if driver is crashed:
            driver.crash()
            driver.restart()
        driver.send_all(sent[cut:])
    assert outputs(crashed) == outputs(undisturbed)
    assert rows(crashed) == rows(undisturbed)


@given(topology=topologies(), sent=records())
def test_the_cache_keeps_the_last_update_of_each_key(topology: Topology, sent: list[DriverRecord]) -> None:
    plain, cached = Driver(topology), Driver(topology, cache=100_000)
    plain.send_all(sent)
    cached.send_all(sent)
    assert rows(cached).keys() == rows(plain).keys()


@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_records_released_together_are_processed_one_by_one(chunk: int) -> None:
    builder = StreamsBuilder("waiting")
    stream = builder.stream("in-1", key=str, value=str)
    joined = stream.left_join(stream.to_table(versioned=100), lambda value, row: f"{value} {row}", grace=5)
    joined.to("out-1")
    joined.map_values(str.upper).to("out-1")
    driver = Driver(builder.build(), chunk=chunk)
    driver.send_all(DriverRecord("in-1", "k", value, time) for value, time in [("a", 0), ("b", 0), ("c", 9)])
    assert [record.value for record in driver.records("out-1")] == ["a b", "A B", "b b", "B B"]
