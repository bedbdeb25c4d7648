"""Inputs that are empty for a moment, with `max_task_idle`: a task waits for them before it takes later rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from streamtopo import StreamsBuilder, Topology, Windows, Worker
from streamtopo.engine.task.marks import without_marks
from streamtopo.engine.task.options import TaskId
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.settings.config import config_of
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.testing import Cluster, Driver, Faults, seeds
from streamtopo.testing.topics import DriverRecord

HOUR = 3_600_000


def merged(*topics: str) -> Topology:
    builder = StreamsBuilder("merged")
    first, *others = (builder.stream(topic, key=str, value=str) for topic in topics)
    for other in others:
        first = first.merge(other)
    first.to("out")
    return builder.build()


def joined() -> Topology:
    builder = StreamsBuilder("joined")
    prices = builder.table("prices", key=str, value=str)
    builder.stream("orders", key=str, value=str).left_join(prices, lambda order, price: f"{order} {price}").to("out")
    return builder.build()


def priced_by_name() -> Topology:
    """The table comes from a repartition topic."""
    builder = StreamsBuilder("priced")
    prices = builder.stream("prices", value=str).group_by(lambda _, price: price.split()[0], key=str)
    table = prices.reduce(lambda _, price: price)
    builder.stream("orders", key=str, value=str).left_join(table, lambda order, price: f"{order} {price}").to("out")
    return builder.build()


def values(driver: Driver) -> list[Any]:
    return [value for _, value in driver.read("out")]


# -- what is waited for, and for how long


def test_a_row_of_the_table_that_comes_later_is_joined_if_it_is_older() -> None:
    driver = Driver(joined(), max_task_idle="1s")
    driver.send("orders", "tea", key="k", timestamp=20)
    assert values(driver) == []
    driver.advance(wall_clock_ms=999)
    driver.send("prices", "5", key="k", timestamp=10)
    driver.advance(wall_clock_ms=1_000)
    assert values(driver) == ["tea 5"]


def test_by_default_nothing_is_waited_for() -> None:
    driver = Driver(joined())
    driver.send("orders", "tea", key="k", timestamp=20)
    driver.send("prices", "5", key="k", timestamp=10)
    assert values(driver) == ["tea None"]


def test_kafka_streams_gives_the_same_rows_at_the_same_times() -> None:
    """What the test driver of Kafka Streams 4.1 answers, call by call."""
    driver = Driver(merged("a", "b"), max_task_idle=1_000)

    def after(sent: str | int) -> list[Any]:
        if isinstance(sent, int):
            driver.advance(wall_clock_ms=sent)
        else:
            driver.send(sent[0], sent, key="k", timestamp=int(sent[1:]))
        return values(driver)

    steps: list[str | int] = ["a10", 999, "b5", 999, 1, "a20", "b15", "a30", 1_000, 1_000]
    assert [after(step) for step in steps] == [[], [], ["b5"], [], ["a10"], ["a20"], [], ["b15"], ["a30"], []]


def test_the_time_starts_when_rows_of_another_input_wait() -> None:
    driver = Driver(merged("a", "b"), max_task_idle=1_000)
    driver.advance(wall_clock_ms=5_000)
    driver.send("a", "a1", key="k", timestamp=1)
    driver.advance(wall_clock_ms=999)
    assert values(driver) == []
    driver.advance(wall_clock_ms=1)
    assert values(driver) == ["a1"]


def test_several_inputs_are_waited_for_at_the_same_time() -> None:
    """In Kafka Streams one after the other: a task with n inputs may wait n - 1 times as long."""
    driver = Driver(merged("a", "b", "c"), max_task_idle=1_000)
    driver.send("a", "a10", key="k", timestamp=10)
    driver.advance(wall_clock_ms=600)
    driver.send("b", "b20", key="k", timestamp=20)
    driver.advance(wall_clock_ms=399)
    assert values(driver) == []
    driver.advance(wall_clock_ms=1)  # c has been empty for a second; then b waits for the next row of a
    assert values(driver) == ["a10"]
    driver.advance(wall_clock_ms=1_000)
    assert values(driver) == ["b20"]


def test_a_row_that_is_left_out_does_not_start_the_time_again() -> None:
    driver = Driver(merged("a", "b"), max_task_idle=1_000, on_error="skip")
    driver.send("a", "a10", key="k", timestamp=10)
    driver.advance(wall_clock_ms=999)
    driver.send_bytes("b", b"\xff", timestamp=5)
    driver.advance(wall_clock_ms=1)
    assert values(driver) == ["a10"]


def test_rows_in_the_log_are_waited_for_without_starting_the_time_again() -> None:
    """Marks, and rows that are left out, make an input look behind for a moment."""
    driver = Driver(merged("a", "b"), max_task_idle=1_000)
    driver.send("a", "a10", key="k", timestamp=10)
    task, b = driver.worker.tasks[TaskId(0, 0)], TopicPartition("b", 0)
    driver.wall_clock_ms = 2_000
    assert task.take({b: 1}) is None
    assert task.take({b: 0}) is not None


def test_a_task_with_one_input_does_not_wait() -> None:
    builder = StreamsBuilder("alone")
    builder.stream("in", value=str).to("out")
    driver = Driver(builder, partitions=2, max_task_idle=HOUR)
    driver.send("in", "x", timestamp=1, partition=0)
    assert values(driver) == ["x"]


def test_tasks_wait_each_for_its_own_partitions() -> None:
    driver = Driver(merged("a", "b"), partitions=2, max_task_idle=HOUR)
    driver.send("a", "a1", timestamp=1, partition=0)
    driver.send("a", "a2", timestamp=2, partition=1)
    driver.send("b", "b3", timestamp=3, partition=1)
    assert values(driver) == ["a2"]


def test_global_tables_wait_for_nothing() -> None:
    builder = StreamsBuilder("global")
    table = builder.global_table("table", key=str, value=str)
    builder.stream("in", key=str, value=str).join(table, lambda key, _: key, lambda one, row: one + row).to("out")
    driver = Driver(builder, partitions=2, max_task_idle=HOUR)
    driver.send("table", "1", key="k", partition=0)
    driver.restart()
    driver.send("in", "x", key="k")
    assert values(driver) == ["x1"]


def test_stream_time_does_not_move_while_rows_wait() -> None:
    builder = StreamsBuilder("idle")
    both = builder.stream("a", key=str, value=str).merge(builder.stream("b", key=str, value=str))
    counts = both.group_by_key().windowed_by(Windows.tumbling("1s"), emit="on_close").count()
    counts.to_stream(lambda window, _: window.key, key=str).to("out")
    driver = Driver(builder, max_task_idle="10s", idle_advance="2s")
    driver.send_all(DriverRecord(topic, "k", "x", time, -1, ()) for topic, time in [("a", 0), ("b", 100)])
    driver.advance(wall_clock_ms=9_999)
    assert values(driver) == []
    driver.advance(wall_clock_ms=1)
    driver.advance(wall_clock_ms=2_000)
    assert values(driver) == [2]


# -- the order of results


@pytest.mark.parametrize("seed", range(60))
def test_rows_of_all_inputs_come_in_the_order_of_their_times(seed: int) -> None:
    random = Random(seed)
    topics = "abcd"[: random.randint(2, 4)]
    driver = Driver(merged(*topics), partitions=2, chunk=random.choice([1, 3, 10_000]), max_task_idle=HOUR)
    times = dict.fromkeys([(topic, partition) for topic in topics for partition in range(2)], 0)
    sent = []
    for _ in range(random.randint(1, 80)):
        topic, partition = random.choice([*times])
        times[topic, partition] += random.randint(0, 50)
        sent.append((partition, times[topic, partition]))
        driver.send(topic, "x", timestamp=times[topic, partition], partition=partition)
        if random.random() < 0.2:
            driver.advance(wall_clock_ms=random.randint(1, HOUR // 100))
        if random.random() < 0.05:
            if random.random() < 0.5:
                driver.crash()
            driver.restart()
    for _ in topics:
        driver.advance(wall_clock_ms=HOUR)
    rows = driver.records("out")
    assert [(row.partition, row.timestamp) for row in rows] == sorted(sent)


@pytest.mark.parametrize(("idle", "orders"), [("0ms", ["tea None", "tea None"]), ("1s", ["tea tea 5", "tea tea 6"])])
def test_a_repartition_topic_is_waited_for_until_the_tasks_before_it_commit(idle: str, orders: list[str]) -> None:
    driver = Driver(priced_by_name(), max_task_idle=idle)
    rows = [("prices", None, "tea 5", 10), ("orders", "tea", "tea", 20)]
    rows += [("prices", None, "tea 6", 30), ("orders", "tea", "tea", 40)]
    driver.send_all(DriverRecord(topic, key, value, time, -1, ()) for topic, key, value, time in rows)
    driver.advance(wall_clock_ms=1_000)
    assert values(driver) == orders


@pytest.mark.parametrize("seed", range(20))
def test_joins_behind_a_repartition_topic_see_the_row_of_their_time(seed: int) -> None:
    random = Random(seed)
    driver = Driver(priced_by_name(), chunk=random.choice([1, 3, 10_000]), max_task_idle=HOUR)
    rows: list[DriverRecord] = []
    wanted, price = [], "None"
    for time_ms in range(40):
        if random.random() < 0.5:
            price = f"tea {time_ms}"
            rows.append(DriverRecord("prices", None, price, time_ms, -1, ()))
        else:
            rows.append(DriverRecord("orders", "tea", "tea", time_ms, -1, ()))
            wanted.append(f"tea {price}")
    random.shuffle(topics := [row.topic for row in rows])  # in which order they arrive
    waiting = {topic: iter([row for row in rows if row.topic == topic]) for topic in ("prices", "orders")}
    for topic in topics:
        driver.send_all([next(waiting[topic])])
    driver.advance(wall_clock_ms=HOUR)
    driver.advance(wall_clock_ms=HOUR)
    assert values(driver) == wanted


def announced(driver: Driver, task: TaskId) -> list[tuple[int, bool]]:
    """Return what a task has said in the repartition topic: its times, and whether it had caught up."""
    (topic,) = (name for name in driver.log.topics() if name.endswith("-repartition"))
    _, marks = without_marks(driver.log.read(TopicPartition(topic, 0), 0, 1_000))
    return [(one.time, one.caught_up) for _, mark in marks for one in mark if one.origin == task]


def test_tasks_behind_a_repartition_topic_keep_their_windows_open_while_rows_wait() -> None:
    builder = StreamsBuilder("marks")
    both = builder.stream("a", value=str).merge(builder.stream("b", value=str))
    windows = both.group_by(lambda _, word: word, key=str).windowed_by(Windows.tumbling("1s"), emit="on_close")
    windows.count().to_stream(lambda window, _: f"{window.key} {window.start}", key=str).to("out")
    driver = Driver(builder, partitions=2, max_task_idle="10s", origin_idle="100ms")
    driver.send("a", "x", timestamp=500, partition=0)
    for topic in "abab":
        driver.send(topic, "x", timestamp=9_500, partition=1)
        driver.advance(wall_clock_ms=1_000)
    assert driver.read("out") == []
    assert announced(driver, TaskId(0, 0)) == [(-1, True), (-1, False)]
    driver.advance(wall_clock_ms=6_000)
    assert announced(driver, TaskId(0, 0)) == [(-1, True), (-1, False), (500, True)]
    driver.advance(wall_clock_ms=6_000)
    assert (driver.read("out"), driver.dropped()) == ([("x 0", 1)], {})


def test_a_task_that_waits_does_not_take_the_turns_of_others() -> None:
    """Of the tasks that write a repartition topic, those that are behind have their turns first."""
    builder = StreamsBuilder("turns")
    both = builder.stream("a", value=str).merge(builder.stream("b", value=str))
    windows = both.group_by(lambda _, word: word, key=str).windowed_by(Windows.tumbling("1s"))
    windows.count().to_stream(lambda window, _: window.key, key=str).to("out")
    driver = Driver(builder, partitions=3, max_task_idle=HOUR)
    driver.send("a", "waits", timestamp=0, partition=0)
    for topic in "ab":
        driver.send(topic, "goes", timestamp=9_000, partition=2)
    assert driver.read("out") == [("goes", 1)]


def test_a_join_by_a_foreign_key_waits_for_its_answers() -> None:
    builder = StreamsBuilder("foreign")
    people = builder.table("people", key=str, value=str)
    towns = builder.table("towns", key=str, value=str)
    people.left_join(towns, lambda one, town: f"{one} {town}", foreign_key=lambda town: town).to_stream().to("out")
    driver = Driver(builder, max_task_idle="1s")
    driver.send("towns", "big", key="Rome")
    driver.send("people", "Rome", key="ann")
    for _ in range(4):
        driver.advance(wall_clock_ms=1_000)
    assert driver.read("out") == [("ann", "Rome big")]


# -- failures, restarts, several workers


@pytest.mark.parametrize("crash", [True, False])
def test_rows_that_wait_are_not_lost_with_the_worker(crash: bool) -> None:
    driver = Driver(joined(), max_task_idle="1s")
    driver.send("orders", "tea", key="k", timestamp=20)
    driver.advance(wall_clock_ms=600)
    if crash:
        driver.crash()
    driver.restart()
    driver.advance(wall_clock_ms=999)  # the time starts again
    driver.send("prices", "5", key="k", timestamp=10)
    assert values(driver) == []
    driver.advance(wall_clock_ms=1_000)
    assert values(driver) == ["tea 5"]
    driver.restart()
    driver.advance(wall_clock_ms=9_000)
    assert values(driver) == []


def test_rounds_that_are_done_again_do_not_depend_on_the_time() -> None:
    broken = "b3"

    def strict(key: str, value: str) -> str:
        assert value != broken
        return value

    builder = StreamsBuilder("again")
    both = builder.stream("a", key=str, value=str).merge(builder.stream("b", key=str, value=str))
    both.map_values(strict, with_key=True).to("out")
    driver = Driver(builder, max_task_idle="1s", on_error="skip")
    rows = [DriverRecord(value[0], "k", value, int(value[1:]), -1, ()) for value in ("a1", "b2", "b3", "a4", "b5")]
    driver.send_all(rows)
    assert values(driver) == ["a1", "b2", "a4"]
    driver.advance(wall_clock_ms=1_000)
    assert values(driver) == ["b5"]


@pytest.mark.parametrize("seed", seeds(25))
def test_whatever_goes_wrong_each_row_comes_once(seed: int) -> None:
    with Cluster(merged("a", "b"), seed=seed, faults=Faults(most=8), max_task_idle="2s") as cluster:
        random = Random(seed)
        for place in range(60):
            at = random.randint(0, 5_000)
            cluster.send(random.choice("ab"), str(place), timestamp=at, partition=random.randrange(4), at=at)
        cluster.run()
        assert sorted(int(value) for _, value in cluster.read("out")) == [*range(60)]


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def worker(self, topology: Topology, log: MemoryLog, **options: Any) -> Worker:
        config = config_of(**{"create_topics": 2, "commit_pause": 0, "max_task_idle": "1s", **options})
        return Worker(topology, log, lambda *_: MemoryStore(), now=self.read, steady=self.read, config=config)

    def read(self) -> int:
        return self.now


def work(*workers: Worker) -> None:
    for _ in range(3):  # a partition that a worker gives back is free in the next turn of another
        while sum(worker.run_once() for worker in workers):
            pass


def append(log: MemoryLog, topic: str, partition: int, value: str, timestamp: int) -> None:
    log.append(TopicPartition(topic, partition), Columns([b"k"], [value.encode()], [timestamp]))


def written(log: MemoryLog) -> list[bytes | None]:
    return [
        value for partition in range(2) for value in log.read(TopicPartition("out", partition), 0, 100).columns.values
    ]


def test_a_worker_polls_while_rows_wait_and_takes_them_when_the_time_is_over() -> None:
    log, clock = MemoryLog(), Clock()
    worker = clock.worker(merged("a", "b"), log)
    work(worker)
    append(log, "a", 0, "a10", 10)
    work(worker)
    began = time.monotonic()
    assert not worker.run_once(0.05)
    assert time.monotonic() - began >= 0.04
    assert (written(log), worker.metrics().lag) == ([], 1)
    clock.now = 1_000
    assert worker.run_once(0.05)
    work(worker)
    assert (written(log), worker.metrics().lag) == ([b"a10"], 0)
    worker.close()


@pytest.mark.parametrize("leave", [Worker.close, Worker.abandon])
def test_another_worker_gets_the_rows_that_wait(leave: Callable[[Worker], None]) -> None:
    log, clock = MemoryLog(), Clock()
    first = clock.worker(merged("a", "b"), log)
    work(first)
    for partition in range(2):
        append(log, "a", partition, f"a{partition}", 10)
    work(first)
    second = clock.worker(merged("a", "b"), log)
    work(first, second)
    assert len(second.tasks) == 1
    assert written(log) == []
    leave(first)
    work(second)
    append(log, "b", 0, "b0", 5)
    work(second)
    clock.now += 1_000
    work(second)
    clock.now += 1_000
    work(second)
    assert written(log) == [b"b0", b"a0", b"a1"]
    second.close()
