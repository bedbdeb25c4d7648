"""Tables converted to streams, and streams to tables."""

from __future__ import annotations

from streamtopo import StreamsBuilder
from streamtopo.testing import Driver
from tests.tables.scores import run, scores


def test_a_table_becomes_a_stream_with_another_key() -> None:
    builder = StreamsBuilder("app")
    scores(builder).to_stream(lambda key, score: score, key=int).map_values(str, value=str).to("out")
    assert run(builder, ("a", 1)) == [(1, "1")]


def test_to_table_names_its_store_and_its_node_separately() -> None:
    builder = StreamsBuilder("named")
    stream = builder.stream("in", key=str, value=str)
    node, kept = stream.to_table(name="node"), stream.to_table(store="kept")
    assert (node.node, node.store, kept.store) == ("node", None, "kept")
    driver = Driver(builder.build())
    driver.send("in", "value", key="k")
    assert driver.store("kept").get("k") == "value"
