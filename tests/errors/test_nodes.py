"""`on_error` of operators, sources and sinks: it is the answer for the nodes that they add."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import streamtopo
from streamtopo import KStream, KTable, StreamsBuilder, Topology, Windows, dead_letter, retry
from streamtopo.errors import ConfigError
from streamtopo.settings.on_error import Skip
from streamtopo.testing import Driver, DriverRecord


def stream_of(builder: StreamsBuilder, topic: str = "in") -> KStream:
    return builder.stream(topic, key=str, value=int)


def table_of(builder: StreamsBuilder, topic: str = "rows") -> KTable:
    return builder.table(topic, key=str, value=int)


CALLS: dict[str, Any] = {
    "stream": lambda b, o: b.stream("in", key=str, value=int, on_error=o),
    "table": lambda b, o: b.table("in", key=str, value=int, on_error=o),
    "global_table": lambda b, o: b.global_table("in", key=str, value=int, on_error=o),
    "map": lambda b, o: stream_of(b).map(lambda key, value: (key, value), on_error=o),
    "map_values": lambda b, o: stream_of(b).map_values(abs, on_error=o),
    "select_key": lambda b, o: stream_of(b).select_key(lambda key, value: key, on_error=o),
    "filter": lambda b, o: stream_of(b).filter(lambda key, value: True, on_error=o),
    "flat_map": lambda b, o: stream_of(b).flat_map(lambda key, value: [], on_error=o),
    "process": lambda b, o: stream_of(b).process(streamtopo.Processor, on_error=o),
    "to": lambda b, o: stream_of(b).to("out", on_error=o),
    "join": lambda b, o: stream_of(b).join(stream_of(b, "other"), max, within="1s", on_error=o),
    "left_join": lambda b, o: stream_of(b).left_join(table_of(b), lambda one, two: one, on_error=o),
    "table_join": lambda b, o: table_of(b, "in").join(table_of(b), max, on_error=o),
    "KTable.map_values": lambda b, o: table_of(b).map_values(abs, on_error=o),
    "count": lambda b, o: stream_of(b).group_by_key().count(on_error=o),
    "reduce": lambda b, o: stream_of(b).group_by_key().reduce(max, on_error=o),
    "windowed": lambda b, o: stream_of(b).group_by_key().windowed_by(Windows.tumbling("1s")).count(on_error=o),
    "grouped_table": lambda b, o: table_of(b).group_by(lambda k, v: (k, v)).count(on_error=o),
    "cogrouped": lambda b, o: stream_of(b).group_by_key().cogroup(lambda k, v, r: r).aggregate(int, on_error=o),
}


@pytest.mark.parametrize("call", CALLS)
def test_the_answer_is_that_of_the_nodes_it_adds(call: str) -> None:
    with_answer, without = StreamsBuilder("app"), StreamsBuilder("app")
    CALLS[call](without, None)
    CALLS[call](with_answer, "skip")
    for builder in (with_answer, without):
        builder.stream("another")
    assert with_answer.build().describe() == without.build().describe()
    assert not any(node.on_error for node in without.build().nodes.values())
    assert any(node.on_error == Skip() for node in with_answer.build().nodes.values())


def test_each_method_that_names_its_nodes_has_it() -> None:
    """Except for those whose nodes call no function."""
    for kind in (StreamsBuilder, *(getattr(streamtopo, name) for name in streamtopo.__all__ if name.startswith("K"))):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            parameters = inspect.signature(method).parameters
            if not name.startswith("_") and "name" in parameters and name not in ("group_by_key", "print"):
                assert "on_error" in parameters, f"{kind.__name__}.{name}"


def test_a_node_has_its_own_answer() -> None:
    builder = StreamsBuilder("app")
    stream = builder.stream("in", value=int, on_error="skip").map_values(
        lambda v: 60 // v, on_error=dead_letter("zeros")
    )
    stream.map_values(lambda value: 60 // (value - 20)).to("out")
    driver = Driver(builder, on_error="dead_letter")
    driver.send_bytes("in", b"no int")
    for value in (0, 3, 6):
        driver.send("in", value)
    assert [letter.value for letter in driver.dead_letters("zeros")] == [bytes(8)]
    assert [letter.value for letter in driver.dead_letters()] == [(3).to_bytes(8, "big")]
    assert (driver.worker.skipped, driver.read("out")) == (1, [(None, -6)])


def test_the_answer_of_a_node_stays_when_the_option_says_another() -> None:
    builder = StreamsBuilder("app")
    builder.stream("in", value=int).map_values(lambda v: 60 // v, on_error="skip").to("out")
    driver = Driver(builder, on_error="fail")
    driver.send("in", 0)
    assert driver.worker.skipped == 1


def test_a_sink_has_its_own_answer() -> None:
    builder = StreamsBuilder("app")
    builder.stream("in", value=int).map_values(str).to("out", on_error=retry(1, then="skip"))
    driver = Driver(builder)
    driver.send("in", 1)
    driver.advance(wall_clock_ms=100)
    assert driver.worker.skipped == 1


def test_nodes_of_a_topology_made_by_hand_have_it() -> None:
    topology = Topology("app").add_source("source", "in", value=int, on_error="skip")
    topology.add_sink("sink", "out", "source", value=str, on_error="dead_letter")
    driver = Driver(topology)
    driver.send_bytes("in", b"no int")
    driver.send("in", 1)
    assert (driver.worker.skipped, len(driver.dead_letters())) == (1, 1)


def test_a_global_table_has_its_own_answer() -> None:
    builder = StreamsBuilder("app")
    names = builder.global_table("names", key=str, value=str, on_error="skip")
    builder.stream("in", key=str, value=int).join(names, lambda key, _: key, lambda value, name: name).to(
        "out", value=str
    )
    driver = Driver(builder)
    driver.send_bytes("names", b"\xff", key=b"a")
    driver.send("names", "Ann", key="b")
    driver.send("in", 1, key="b")
    assert (driver.read("out"), driver.worker.skipped) == ([("b", "Ann")], 1)


def test_a_wrong_answer_is_an_error_at_once() -> None:
    with pytest.raises(ConfigError, match=r"on_error is 'maybe'; give fail, skip, dead-letter or retry"):
        stream_of(StreamsBuilder("app")).map_values(abs, on_error="maybe")


def test_what_a_partitioner_changes_in_place_is_not_written_if_it_fails_on_another_record() -> None:
    def choose(topic: str, key: str, value: list[int], count: int) -> None:
        value.append(1 // value[0])

    builder = StreamsBuilder("lists")
    builder.stream("in", key=str, value=list).to("out", partitioner=choose)
    driver = Driver(builder, on_error="skip")
    driver.send_all([DriverRecord("in", "k", [number], 0) for number in (1, 0, 2)])
    assert [value for _, value in driver.read("out")] == [[1], [2]]
