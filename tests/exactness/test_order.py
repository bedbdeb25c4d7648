"""Where paths meet, rows arrive in the order of single records, depth first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamtopo import KStream, Processor, ProcessorContext, Record, StreamsBuilder, Topology
from streamtopo.testing import Driver


def topology_of(describe: Callable[[StreamsBuilder, KStream], object]) -> Topology:
    builder = StreamsBuilder("order")
    describe(builder, builder.stream("in", key=str, value=str))
    return builder.build()


def values(topology: Topology, *sent: str) -> list[str]:
    driver = Driver(topology)
    driver.send_all([("in", "k", value, 0, -1, ()) for value in sent])  # type: ignore[misc]
    return [value for _, value in driver.read("out")]


def test_a_fork_after_a_flat_map_that_merges_again() -> None:
    def describe(_: StreamsBuilder, stream: KStream) -> None:
        letters = stream.flat_map_values(list)
        letters.map_values(str.upper).merge(letters.map_values(lambda letter: f"{letter}!")).to("out")

    assert values(topology_of(describe), "ab", "c") == ["A", "a!", "B", "b!", "C", "c!"]


def test_a_flat_map_in_one_branch_only() -> None:
    def describe(_: StreamsBuilder, stream: KStream) -> None:
        stream.flat_map_values(list).merge(stream).to("out")

    assert values(topology_of(describe), "ab", "cd") == ["a", "b", "ab", "c", "d", "cd"]


def test_a_stream_merged_with_itself() -> None:
    assert values(topology_of(lambda _, stream: stream.merge(stream).to("out")), "a", "b") == ["a", "a", "b", "b"]


def test_a_merge_of_merges() -> None:
    def describe(_: StreamsBuilder, stream: KStream) -> None:
        twice = stream.map_values(str.upper).merge(stream)
        twice.merge(stream.map_values(lambda value: f"{value}?")).merge(twice).to("out")

    assert values(topology_of(describe), "a", "b") == ["A", "A", "a", "a", "a?", "B", "B", "b", "b", "b?"]


def test_two_sinks_on_one_topic() -> None:
    def describe(_: StreamsBuilder, stream: KStream) -> None:
        stream.map_values(str.upper).to("out")
        stream.to("out")

    assert values(topology_of(describe), "a", "b", "c") == ["A", "a", "B", "b", "C", "c"]


def test_a_dynamic_sink_and_other_sinks_on_one_topic() -> None:
    def describe(_: StreamsBuilder, stream: KStream) -> None:
        stream.map_values(str.upper).to(lambda key, value, context: "out" if value != "B" else "elsewhere")
        stream.to("out")

    assert values(topology_of(describe), "a", "b", "c") == ["A", "a", "b", "C", "c"]


def test_branches_that_merge_again() -> None:
    def describe(_: StreamsBuilder, stream: KStream) -> None:
        vowels, others = stream.split([lambda _, value: value in "aeiou"], default=True).values()
        others.map_values(str.upper).merge(vowels).to("out")

    assert values(topology_of(describe), "a", "b", "c", "e") == ["a", "B", "C", "e"]


class LookUp(Processor):
    """A stream-table join written as a processor."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.table = context.get_state_store("table")

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(f"{record.value} sees {self.table.get(record.key)}"))


@pytest.mark.parametrize(
    ("table_first", "expected"),
    [(True, ["a sees a", "b sees b", "c sees c"]), (False, ["a sees None", "b sees a", "c sees b"])],
)
def test_a_processor_joins_a_table_with_the_stream_that_feeds_it(table_first: bool, expected: list[str]) -> None:
    def describe(builder: StreamsBuilder, stream: KStream) -> None:
        if table_first:
            stream.to_table(store="table")
            stream.process_values(LookUp, stores=["table"]).to("out")
        else:
            joined = stream.process_values(LookUp)
            stream.to_table(store="table")
            builder.build().connect(joined.node, "table")
            joined.to("out")

    assert values(topology_of(describe), "a", "b", "c") == expected


def test_a_processor_joins_a_count_with_its_own_stream() -> None:
    class Counted(LookUp):
        def init(self, context: ProcessorContext) -> None:
            self.context = context
            self.table = context.get_state_store("counts")

    def describe(_: StreamsBuilder, stream: KStream) -> None:
        stream.group_by_key().count(name="counts")
        stream.process_values(Counted, stores=["counts"]).to("out")

    assert values(topology_of(describe), "a", "b", "c") == ["a sees 1", "b sees 2", "c sees 3"]


def test_a_forward_to_one_child_keeps_its_place_between_forwards_to_all() -> None:
    class Choose(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record.with_value("all"))
            self.context.forward(record.with_value("second"), "second")
            self.context.forward(record.with_value("again"))

    topology = Topology("choose").add_source("source", "in", key=str, value=str)
    topology.add_processor("choose", Choose, "source")
    topology.add_processor("first", Processor, "choose").add_processor("second", Processor, "choose")
    topology.add_sink("sink", "out", "first", "second", key=str, value=str)
    assert values(topology, "x") == ["all", "all", "second", "again", "again"]
