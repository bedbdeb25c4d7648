"""Joins of two streams in users' programs, one special case per test."""

from __future__ import annotations

from streamtopo import KStream, Processor, ProcessorContext, Record, StreamsBuilder, Topology
from streamtopo.testing import Driver
from tests.joins.two_streams import plus, topology


def test_the_joiner_can_take_the_key() -> None:
    driver = Driver(
        topology(lambda _, left, right: left.join(right, lambda k, a, b: f"{k}:{a}{b}", within="1s", with_key=True))
    )
    driver.send("left", "a", key="k")
    driver.send("right", "b", key="k")
    assert driver.read("out") == [("k", "k:ab")]


def test_streams_with_changed_keys_are_joined_in_one_task() -> None:
    def describe(_: StreamsBuilder, left: KStream, right: KStream) -> KStream:
        return left.select_key(lambda _, value: value[0]).join(
            right.select_key(lambda _, value: value[0]), plus, within=5
        )

    driver = Driver(topology(describe), partitions=3)
    for number in range(9):
        driver.send("left", f"{number}l", key=f"left{number}", timestamp=number)
        driver.send("right", f"{number}r", key=f"right{number}", timestamp=number)
    assert sorted(driver.read("out")) == [(str(number), f"{number}l+{number}r") for number in range(9)]


def test_rows_without_a_key_are_repartitioned_if_the_join_needs_them() -> None:
    def describe(how: str) -> Topology:
        return topology(lambda _, left, right: getattr(left.select_key(lambda key, _: key), how)(right, plus, within=5))

    outputs = {}
    for how in ("join", "left_join", "outer_join"):
        driver = Driver(describe(how))
        driver.send("left", "a")
        driver.send("right", "b")
        outputs[how] = driver.read("out")
    assert outputs == {
        "join": [],
        "left_join": [(None, "a+None")],
        "outer_join": [(None, "a+None"), (None, "None+b")],
    }


def test_nodes_and_stores_have_the_given_names() -> None:
    text = topology(lambda _, left, right: left.left_join(right, plus, within=1, name="meet", store="met")).describe()
    for name in ("meet-this-windowed", "meet-other-windowed", "meet-this-join", "meet-outer-other-join", "meet-merge"):
        assert f"Processor: {name} " in text
    for store in ("met-this-join-store", "met-outer-other-join-store", "met-left-shared-join-store"):
        assert store in text


def test_headers_are_those_of_the_record_that_completes_the_row() -> None:
    driver = Driver(topology(lambda _, left, right: left.left_join(right, plus, within=5)))
    driver.send("left", "a", key="k", timestamp=0, headers=(("from", b"a"),))
    driver.send("left", "b", key="k", timestamp=100, headers=(("from", b"b"),))
    assert [(row.value, row.headers) for row in driver.records("out")] == [("a+None", (("from", b"b"),))]


class Rows(Processor):
    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.rows = context.get_state_store("met-this-join-store")

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(str(self.rows.approximate_num_entries())))


def test_a_processor_reads_a_joins_store_as_of_its_own_record() -> None:
    def describe(_: StreamsBuilder, left: KStream, right: KStream) -> KStream:
        left.join(right, plus, within=10, store="met").to("joined")
        return left.process(Rows, stores=["met-this-join-store"])

    for chunk in (1, 10_000):
        driver = Driver(topology(describe), chunk=chunk)
        driver.send_all([("left", "k", "a", time, -1, ()) for time in range(3)])  # type: ignore[misc]
        assert driver.read("out") == [("k", "1"), ("k", "2"), ("k", "3")]


def test_dropped_rows_are_counted() -> None:
    driver = Driver(topology(lambda _, left, right: left.join(right, plus, within=10)))
    driver.send("left", "a")
    driver.send("right", None, key="k")
    assert driver.dropped() == {"null key or value": 2}


def test_a_joiner_that_raises_changes_nothing() -> None:
    def failing(left: str, right: str) -> str:
        if "bad" in (left, right):
            raise ValueError("bad")
        return plus(left, right)

    driver = Driver(topology(lambda _, left, right: left.join(right, failing, within=10)), on_error="skip")
    sent = [("left", "a"), ("right", "b"), ("right", "bad"), ("left", "c")]
    driver.send_all([(topic, "k", value, time, -1, ()) for time, (topic, value) in enumerate(sent)])  # type: ignore[misc]
    assert driver.read("out") == [("k", "a+b"), ("k", "c+b")]
