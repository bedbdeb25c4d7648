"""Bugs found in review: each one gave a wrong result, lost a record or stopped the worker."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

from streamtopo import Processor, ProcessorContext, Record, StreamsBuilder, StreamtopoError, key_value_store
from streamtopo.errors import StepError, TopologyError
from streamtopo.logs import Topic
from streamtopo.testing import Driver, DriverRecord
from tests.in_place import added


def sent(*values: Any, key: Any = None) -> list[DriverRecord]:
    return [DriverRecord("in", key, value, time) for time, value in enumerate(values)]


def test_undecodable_bytes_after_valid_ones_stay_in_their_place() -> None:
    builder = StreamsBuilder("odd")
    builder.stream("in", value=dict).to("out")
    driver = Driver(builder.build())
    for value in (b'{"n":1}', b"{", b'{"n":3}'):
        driver._append("in", None, value, 0, (), -1)
    for _ in range(2):
        with pytest.raises(StepError, match="in/0 offset 1"):
            driver.run()
    driver.crash()
    with pytest.raises(StepError, match="in/0 offset 1"):
        driver.restart()
    assert driver.read("out") == [(None, {"n": 1})]


@pytest.mark.parametrize("operator", ["filter", "map", "select_key"])
def test_a_stop_iteration_does_not_end_the_chunk(operator: str) -> None:
    def first_large(_: Any, value: list[int]) -> Any:
        large = next(item for item in value if item > 3)
        return (large, value) if operator == "map" else large

    builder = StreamsBuilder("odd")
    getattr(builder.stream("in", value=list), operator)(first_large).for_each(lambda key, value: None)
    with pytest.raises(StepError, match=r"in/0 offset 1.*raised StopIteration"):
        Driver(builder.build()).send_all(sent([5], [1], [7]))


def test_a_value_that_cannot_be_copied_is_an_error_of_its_record() -> None:
    builder = StreamsBuilder("odd")
    stream = builder.stream("in", key=str, value=str)
    stream.group_by_key().count(name="counts")
    locks = stream.map_values(lambda value: threading.Lock() if value == "bad" else value)
    locks.for_each(lambda key, value: None)
    locks.map_values(str).to("out", value=str)
    driver = Driver(builder.build(), on_error="skip")
    driver.send_all(sent("a", "bad", "c", key="k"))
    assert (driver.store("counts").get("k"), len(driver.read("out"))) == (2, 2)


def test_an_interrupt_leaves_nothing_half_done() -> None:
    interrupts = [KeyboardInterrupt]

    def interrupted(value: str) -> str:
        if value == "b" and interrupts:
            raise interrupts.pop()
        return value

    builder = StreamsBuilder("odd")
    stream = builder.stream("in", key=str, value=str)
    stream.group_by_key().count(name="counts").to_stream().to("counted")
    stream.map_values(interrupted).to("out")
    driver = Driver(builder.build())
    with pytest.raises(KeyboardInterrupt):
        driver.send_all(sent("a", "b", "c", key="k"))
    driver.run()
    assert driver.read("counted") == [("k", 1), ("k", 2), ("k", 3)]


class Put(Processor):
    def init(self, context: ProcessorContext) -> None:
        self.rows = context.get_state_store("rows")

    def process(self, record: Record) -> None:
        self.rows.put("k", record.value)


class Get(Processor):
    def init(self, context: ProcessorContext) -> None:
        self.context, self.rows = context, context.get_state_store("rows")

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(f"{record.value} sees {self.rows.get('k')}"))


def test_two_branches_share_a_store() -> None:
    builder = StreamsBuilder("odd")
    stream = builder.stream("in", key=str, value=str)
    upper = stream.map_values(str.upper)
    stream.process(Put, stores=[key_value_store("rows", key=str, value=str)])
    upper.process_values(Get, stores=["rows"]).to("out")
    driver = Driver(builder.build())
    driver.send_all(sent("a", "b", key="k"))
    assert [value for _, value in driver.read("out")] == ["A sees None", "B sees a"]


def test_a_rejected_record_leaves_no_output() -> None:
    class Wrong(Get):
        def process(self, record: Record) -> None:
            self.context.forward(record)
            self.rows.put(record.key, 5 if record.value == "bad" else record.value)

    builder = StreamsBuilder("odd")
    rows = key_value_store("rows", key=str, value=str)
    builder.stream("in", key=str, value=str).process_values(Wrong, stores=[rows]).to("out")
    driver = Driver(builder.build(), on_error="skip")
    driver.send_all(sent("a", "bad", key="k"))
    driver.send_all(sent("c", key="k"))
    assert driver.worker.skipped == 1
    assert [value for _, value in driver.read("out")] == ["a", "c"]


def test_a_timestamp_function_that_changes_the_value_repeats_that_in_a_replay() -> None:
    builder = StreamsBuilder("odd")
    stream = builder.stream("in", value=dict, timestamp=lambda _, value: value.pop("ts"))
    stream.map_values(lambda value: {"n": 6 // value["n"]}).to("out")
    stream.to("same")
    driver = Driver(builder.build(), on_error="skip")
    driver.send_all(sent({"n": 1, "ts": 1}, {"n": 0, "ts": 2}))
    assert driver.read("same") == [(None, {"n": 1})]


@pytest.mark.parametrize("chunk", [1, 100])
def test_a_call_scheduled_while_processing_is_due_before_the_next_record(chunk: int) -> None:
    class Later(Processor):
        def process(self, record: Record) -> None:
            if record.value == 2:
                self.context.schedule(10, "stream_time", fired.append)

    fired: list[int] = []
    builder = StreamsBuilder("odd")
    builder.stream("in", value=int).process(Later)
    Driver(builder.build(), chunk=chunk).send_all(DriverRecord("in", None, time, time) for time in (1, 2, 15, 16))
    assert fired == [2, 15]


def test_the_same_object_in_several_rows() -> None:
    def growing(value: list[int]) -> Any:
        grown: list[int] = []
        for item in value:
            grown.append(item)
            yield grown

    builder = StreamsBuilder("odd")
    stream = builder.stream("in", value=list)
    stream.flat_map_values(lambda value: [value, value]).map_values(lambda value: added(value, ["x"])).to("twice")
    stream.flat_map_values(growing).to("growing")
    driver = Driver(builder.build())
    driver.send("in", [1, 2])
    assert [value for _, value in driver.read("twice")] == [[1, 2, "x"]] * 2
    assert [value for _, value in driver.read("growing")] == [[1], [1, 2]]


def test_a_supplier_must_return_new_processors() -> None:
    one = Processor()
    builder = StreamsBuilder("odd")
    builder.stream("in").process(lambda: one)
    with pytest.raises(TopologyError, match="already in use; return a new one each time"):
        Driver(builder.build(), partitions=2)


def test_a_stateful_topology_with_a_topic_pattern_may_start_without_topics() -> None:
    builder = StreamsBuilder("odd")
    stream = builder.stream(re.compile("in-.*"), key=str, value=str)
    stream.group_by(lambda _, value: value, key=str).count(name="counts").to_stream().to("out")
    driver = Driver(builder.build())
    driver.log.create(Topic("in-1", 2))
    driver.send("in-1", "v", key="k")
    assert driver.store("counts").get("v") == 1


def test_a_partition_is_not_stuck_when_a_member_joins_after_a_failed_commit() -> None:
    builder = StreamsBuilder("odd")
    builder.stream("in", key=str, value=str).to("out")
    first = Driver(builder.build(), partitions=2)
    first.worker._drop_all()  # a failed commit leaves no tasks, and the partitions are still owned
    second = Driver(builder.build(), partitions=2, log=first.log)
    for _ in range(3):
        first.run()
        second.run()
    assert len(first.worker.tasks) == len(second.worker.tasks) == 1


@pytest.mark.parametrize("returned", [None, "ab", {"k": 1}])
def test_a_map_that_does_not_return_a_pair_is_an_error(returned: Any) -> None:
    builder = StreamsBuilder("odd")
    builder.stream("in", value=str).map(lambda key, value: returned).to("out")
    with pytest.raises(StreamtopoError, match=r"in/0 offset 0.*return a pair: \(key, value\)"):
        Driver(builder.build()).send("in", "v")
