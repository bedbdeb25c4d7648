"""Global tables and stores: complete in every worker before any task starts, and up to date afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamtopo import Processor, ProcessorContext, Record, StreamsBuilder, StreamtopoError, Topology, key_value_store
from streamtopo.drawing.formats.as_json import document
from streamtopo.engine.worker.worker import Worker
from streamtopo.errors import StepError, TopologyError
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.testing import Driver
from tests.in_place import added


def orders(*, left: bool = False) -> Topology:
    builder = StreamsBuilder("orders")
    prices = builder.global_table("prices", key=str, value=int, name="prices")
    stream = builder.stream("orders", key=str, value=dict)
    join = stream.left_join if left else stream.join
    join(prices, lambda _, order: order["item"], lambda order, price: {**order, "price": price}).to("priced")
    return builder.build()


def test_records_are_joined_by_a_key_computed_from_them() -> None:
    driver = Driver(orders(), partitions=3)
    for item, price in (("tea", 3), ("rum", 20), ("tea", 4)):
        driver.send("prices", price, key=item)
    for customer, item in (("ann", "tea"), ("bob", "rum"), ("cid", "ale")):
        driver.send("orders", {"item": item}, key=customer)
    priced = sorted(driver.read("priced"), key=lambda pair: str(pair[0]))
    assert priced == [("ann", {"item": "tea", "price": 4}), ("bob", {"item": "rum", "price": 20})]
    assert dict(driver.store("prices").all()) == {"tea": 4, "rum": 20}


def test_a_deleted_row_and_missing_keys_and_values() -> None:
    driver = Driver(orders(left=True))
    driver.send("prices", 3, key="tea")
    driver.send("prices", None, key="tea")
    driver.send("prices", 3)
    for key, value in (("ann", {"item": "tea"}), (None, {"item": None}), ("bob", None)):
        driver.send("orders", value, key=key)
    assert driver.read("priced") == [("ann", {"item": "tea", "price": None}), (None, {"item": None, "price": None})]
    assert driver.dropped() == {"null key or value": 1}


def test_a_global_table_is_loaded_before_the_first_record_and_after_a_crash() -> None:
    driver = Driver(orders(), chunk=2)
    for number in range(20):
        driver.send("prices", number, key=f"item{number}")
    driver.crash()
    driver.restart()
    driver.send("orders", {"item": "item19"}, key="ann")
    assert driver.read("priced") == [("ann", {"item": "item19", "price": 19})]


def test_every_worker_reads_all_partitions_before_a_task_starts() -> None:
    log = MemoryLog()
    for topic in ("prices", "orders", "priced"):
        log.create(Topic(topic, 2))
    for part in range(2):
        log.append(TopicPartition("prices", part), Columns([b"item%d" % part], [(5).to_bytes(8)], [9_000]))
        log.append(TopicPartition("orders", part), Columns([b"k"], [b'{"item": "item%d"}' % (1 - part)], [0]))
    workers = [Worker(orders(), log, lambda stores, partition: MemoryStore(), commit_interval=0) for _ in range(2)]
    while sum(worker.run_once() for worker in workers):
        pass
    assert [len(worker.tasks) for worker in workers] == [1, 1]
    for worker in workers:
        worker.close()
    outputs = [log.read(TopicPartition("priced", part), 0, 10).columns for part in range(2)]
    assert sum(len(columns.keys) for columns in outputs) == 2


def test_a_joiner_that_changes_a_row_changes_a_copy() -> None:
    builder = StreamsBuilder("mutable")
    table = builder.global_table("rows", key=str, value=list)
    stream = builder.stream("in", key=str, value=str)
    stream.join(table, lambda key, _: key, lambda value, row: added(row, [value]), value=list).to("out")
    driver = Driver(builder.build())
    driver.send("rows", [1], key="a")
    for value in "xy":
        driver.send("in", value, key="a")
    assert driver.read("out") == [("a", [1, "x"]), ("a", [1, "y"])]


class Summing(Processor):
    def init(self, context: ProcessorContext) -> None:
        self.rows = context.get_state_store("sums")

    def process(self, record: Record) -> None:
        if record.value < 0:
            raise ValueError("negative")
        self.rows.put(record.key, (self.rows.get(record.key) or 0) + record.value)


class Asking(Processor):
    def process(self, record: Record) -> None:
        rows = self.context.get_state_store("sums")
        if record.value == "put":
            rows.put(record.key, 1)
        self.context.forward(record.with_value(rows.get(record.key)))


def summing() -> Topology:
    builder = StreamsBuilder("summing")
    builder.add_global_store(key_value_store("sums", key=str, value=int), "numbers", Summing, key=str, value=int)
    builder.stream("questions", key=str, value=str).process(Asking, value=int).to("answers")
    return builder.build()


def test_a_processor_updates_a_global_store_and_others_read_it() -> None:
    driver = Driver(summing(), partitions=2)
    for number in (1, 2, 3):
        driver.send("numbers", number, key="a")
    driver.send("questions", "?", key="a")
    assert driver.read("answers") == [("a", 6)]
    with pytest.raises(StepError, match='global store "sums" can only be read'):
        driver.send("questions", "put", key="a")


def test_the_processor_of_a_global_store_is_closed_with_the_worker() -> None:
    builder = StreamsBuilder("closing")
    closed: list[str] = []

    class Closing(Processor):
        def close(self) -> None:
            closed.append("closed")

    builder.add_global_store(key_value_store("rows"), "rows", Closing)
    builder.stream("in").to("out")
    driver = Driver(builder.build())
    driver.restart()
    driver.close()
    assert closed == ["closed", "closed"]


def test_a_row_that_cannot_be_stored_is_reported_or_skipped() -> None:
    builder = StreamsBuilder("rows")
    builder.global_table("in", key=str, value=dict, name="rows")
    builder.stream("other", key=str, value=str).to("out")
    driver = Driver(builder.build())
    with pytest.raises(StepError, match=r"store rows.*in/0 offset 0: the value does not fit: expected dict, got str"):
        driver.send_bytes("in", b'"text"', key=b"a")
    driver = Driver(builder.build(), on_error="skip")
    driver.send("in", {"n": 1}, key="a")
    driver.send_bytes("in", b'"text"', key=b"a")
    driver.send("in", {"n": 2}, key="b")
    assert dict(driver.store("rows").all()) == {"a": {"n": 1}, "b": {"n": 2}}
    assert driver.worker.metrics().skipped == 1


def test_a_record_that_its_processor_cannot_process_is_reported_or_skipped() -> None:
    with pytest.raises(StepError, match="numbers/0 offset 1"):
        send_numbers(Driver(summing()))
    driver = Driver(summing(), on_error="skip")
    send_numbers(driver)
    assert driver.store("sums").get("a") == 5


def send_numbers(driver: Driver) -> None:
    for number in (2, -1, 3):
        driver.send("numbers", number, key="a")


@pytest.mark.parametrize("wrong", ["read twice", "only global", "connected", "one function", "grace", "outer"])
def test_impossible_uses_are_refused(wrong: str) -> None:
    builder = StreamsBuilder("wrong")
    table = builder.global_table("rows", name="rows")
    if wrong == "only global":
        with pytest.raises(TopologyError, match="has no source"):
            builder.build()
        return
    stream: Any = builder.stream("in")
    attempts: dict[str, Callable[[], object]] = {
        "read twice": lambda: builder.stream("rows"),
        "connected": lambda: stream.process(Asking, stores=["rows"]),
        "one function": lambda: stream.join(table, lambda value, row: row),
        "grace": lambda: stream.join(table, lambda key, value: key, lambda value, row: row, grace=5),
        "outer": lambda: stream.outer_join(table, lambda value, row: row, within=1),
    }
    with pytest.raises(
        StreamtopoError,
        match=r"feeds a global|without naming|a function that gives|has no option grace|cannot be outer-joined",
    ):
        attempts[wrong]()


def test_a_global_store_is_described_and_drawn() -> None:
    text = orders().describe()
    assert "Sub-topology: 0 for global store (will not generate tasks)\n" in text
    drawn = document(orders())
    assert [part["number"] for part in drawn["subtopologies"]] == [0, 1]
    assert drawn["stores"][0]["changelog"] is None
