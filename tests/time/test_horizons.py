"""Time behind repartition topics goes on after crashes, rollbacks, failures, and records from the future."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from streamtopo import Processor, Record, StreamsBuilder, Topology, Windows, until_window_closes
from streamtopo.engine.task.horizons import Read, TimeHorizon, WrittenUntil
from streamtopo.engine.task.options import TaskId
from streamtopo.engine.task.origins import Known, Origins
from streamtopo.engine.task.progress import Place
from streamtopo.engine.worker.worker import Worker
from streamtopo.logs import CommitResult, GroupProgress, Topic
from streamtopo.logs.memory import MemoryLog, MemoryMember
from streamtopo.records import Columns, TopicPartition
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.testing import Cluster, Driver, DriverRecord, seeds
from streamtopo.topology.clocks import Bound
from streamtopo.windows import FOREVER, SessionWindows, SlidingWindows

KEYS = "abcdef"


class Unchanged(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record)


def checked(value: str) -> str:
    if value == "bad":
        raise ValueError(value)
    return value


def closing(*, processor: bool = False, check_windows: bool = False) -> Topology:
    """Values become keys, in windows of a second that come out when they close."""
    builder = StreamsBuilder("closing")
    values = builder.stream("in", value=str).filter(lambda _, value: value != "nobody")
    if processor:
        values = values.process(Unchanged, value=str)
    windows = values.group_by(lambda _, value: value, key=str).windowed_by(Windows.tumbling("1s"), emit="on_close")
    closed = windows.count().to_stream(lambda window, _: window.key, key=str)
    closed.to("out")
    if check_windows:
        closed.map(lambda key, _: (key, checked(key)), value=str).to("checked")
    else:
        values.map_values(checked).to("checked")
    return builder.build()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("kill_after", range(1, 8))
def test_a_task_whose_last_mark_was_committed_before_its_clocks_moved(
    kill_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker commits in the middle of a turn: some of its tasks have read marks, but not followed them."""
    log, commits = MemoryLog(), iter(range(1, 1000))
    for topic in ("in", "out", "checked"):
        log.create(Topic(topic, 2))
    commit = MemoryMember.commit

    def killed_after(member: MemoryMember, positions: Any) -> CommitResult:
        result = commit(member, positions)
        if next(commits) == kill_after:
            member.evict()
            raise Killed
        return result

    monkeypatch.setattr(MemoryMember, "commit", killed_after)

    def start() -> Worker:
        stores = lambda *_: MemoryStore()  # noqa: E731
        return Worker(closing(), log, stores, now=lambda: 0, max_ahead=None, cache=0, commit_interval=0, commit_pause=0)

    def work(worker: Worker) -> Worker:
        for _ in range(30):
            try:
                worker.run_once()
            except Killed:
                worker = start()
        return worker

    def send(values: str | list[str], time: int, partition: int) -> None:
        columns = Columns([None] * len(values), [value.encode() for value in values], [time] * len(values))
        log.append(TopicPartition("in", partition), columns)

    send(KEYS, 500, 0)
    send(KEYS, 2000, 0)
    worker = work(start())
    send(["nobody"], 2000, 1)
    work(worker)
    assert sum(log.end(TopicPartition("out", partition)) for partition in (0, 1)) == len(KEYS)


def test_records_that_fail_do_not_make_silent_partitions_count_again() -> None:
    driver = Driver(closing(), partitions=2, origin_idle="500ms", on_error="skip")
    driver.send("in", "a", timestamp=1000, partition=1)
    for number in range(100):
        driver.send("in", "a", timestamp=2000 + number * 100, partition=0)
        if number % 3 == 0:
            driver.send("in", "bad", timestamp=2000 + number * 100, partition=0)
        driver.advance(wall_clock_ms=100)
    assert len(driver.read("out")) == 10


@pytest.mark.parametrize("origin_idle", [0, 500])
def test_windows_that_cannot_be_closed_are_not_tried_in_each_turn(origin_idle: int) -> None:
    driver = Driver(closing(check_windows=True), partitions=2, on_error="skip", origin_idle=origin_idle)
    driver.send_all(DriverRecord("in", None, value, time, 0, ()) for time in (0, 1000) for value in ("bad", "a", "b"))
    for _ in range(5):
        driver.advance(wall_clock_ms=1000)
    assert 0 < driver.worker.skipped < 10


@pytest.mark.parametrize("seed", seeds(5))
def test_a_record_from_the_future_before_a_processor_leaves_its_partition_where_it_is(seed: int) -> None:
    topology = closing(processor=True)
    with Cluster(topology, workers=2, partitions=2, seed=seed, faults=False, max_ahead="1h", chunk=5) as cluster:
        cluster.send("in", "a", timestamp=10**9, partition=0)
        for number in range(200):
            cluster.send("in", "a", timestamp=number * 100, partition=number % 2)
        cluster.run()
        assert cluster.dropped == {}


def test_what_is_remembered_while_a_task_with_unread_records_is_waited_for() -> None:
    """For a weekend; then all that was seen before counts at once, and what was seen last half a second later."""
    ids = [TaskId(0, 0), TaskId(0, 1)]
    place = Place(0, origins=Origins(ids, Known((0, 0), (False, True))))
    horizon = TimeHorizon(Bound(), [Read(TopicPartition("in", 0), place)], 500)
    for now in range(0, 50_000, 10):
        place.time = now
        horizon.age(now, lambda *_: None)
    assert len(horizon._history) <= 1000
    assert place.origins is not None
    place.origins.known = Known((FOREVER, 0), (False, True))
    horizon.age(50_000, lambda *_: 0)
    horizon.follow(horizon.found)
    assert 49_000 < horizon.bound.horizon <= 49_500
    horizon.age(50_490, lambda *_: 0)
    horizon.follow(horizon.found)
    assert horizon.bound.horizon == 49_990


def test_a_silent_task_is_passed_as_far_as_a_slow_one_has_got() -> None:
    """When the slow one has caught up, it counts as silent only after it was found to have nothing to read."""
    place = Place(0, 1000, Origins([TaskId(0, 0), TaskId(0, 1)], Known((-1, 300), (True, False))))
    assert place.origins is not None
    horizon = TimeHorizon(Bound(), [Read(TopicPartition("in", 0), place)], 500)
    nothing_unread: WrittenUntil = lambda *_: 0  # noqa: E731
    only_slow_unread: WrittenUntil = lambda silent, *_: None if TaskId(0, 1) in silent else 0  # noqa: E731
    reached = []
    for now, slow, caught_up, found in [
        (0, 300, False, only_slow_unread),
        (500, 300, False, only_slow_unread),
        (510, 600, False, only_slow_unread),
        (520, 700, True, only_slow_unread),
        (530, 700, True, nothing_unread),
    ]:
        place.origins.known = Known((-1, slow), (True, caught_up))
        horizon.age(now, found)
        horizon.follow(horizon.found)
        reached.append(horizon.bound.horizon)
    assert reached == [-1, 300, 600, 600, 1000]


def test_a_partition_that_the_task_reads_itself_is_waited_for_until_it_is_silent() -> None:
    """All tasks before have announced 1000, but nothing came from them here."""
    announced = Place(0, -1, Origins([TaskId(0, 0), TaskId(0, 1)], Known((1000, 1000), (True, True))))
    itself = Place(5, 300)
    inputs = [Read(TopicPartition("announced", 0), announced), Read(TopicPartition("itself", 0), itself)]
    horizon = TimeHorizon(Bound(), inputs, 500)
    reached = []
    for now, end in [(0, 6), (500, 6), (510, 6), (520, 5)]:
        horizon.age(now, lambda origins, partition, since, end=end: end)  # type: ignore[misc]
        horizon.follow(horizon.found)
        reached.append((horizon.bound.lead, horizon.bound.horizon))
    assert reached == [(300, 1000), (300, 1000), (300, 1000), (1000, 1000)]


def test_a_mark_that_is_read_late_says_nothing_of_the_records_that_came_after_it() -> None:
    """One worker is slow to read the marks. The other is stopped, and has an unread record."""
    builder = StreamsBuilder("counted")
    values = builder.stream("in", value=str).select_key(lambda _, value: value, key=str)
    values.repartition(partitions=1).group_by_key().windowed_by(Windows.tumbling("1s")).count()
    log, topology, now = MemoryLog(), builder.build(), 0
    log.create(Topic("in", 2))

    def start() -> Worker:
        clock, stores = lambda: now, lambda *_: MemoryStore()
        options: dict[str, Any] = {"chunk": 1, "commit_interval": 0, "commit_pause": 0, "max_ahead": None}
        return Worker(topology, log, stores, now=clock, steady=clock, **options)

    def send(partition: int, times: Iterable[int]) -> None:
        for at in times:
            log.append(TopicPartition("in", partition), Columns([None], [b"a"], [at]))

    def work(turns: int, *workers: Worker) -> None:
        for worker in workers * turns:
            worker.run_once()

    reader, stopped = start(), start()
    work(5, reader, stopped)
    assert (list(reader.tasks), list(stopped.tasks)) == ([TaskId(0, 0), TaskId(1, 0)], [TaskId(0, 1)])
    send(1, range(0, 500, 10))
    work(1, stopped)
    send(0, [10_000])
    work(6, reader, stopped)
    work(100, stopped)  # until it has caught up: the reader does not know that yet
    now = 100
    send(1, [600])
    now = 600
    work(100, reader)
    work(100, stopped, reader)
    task = reader.tasks[TaskId(1, 0)]
    assert (task.progress.dropped, task.progress.time) == ({}, 10_000)


def test_partitions_that_match_a_pattern_later_are_waited_for() -> None:
    """While the tasks behind the repartition topic are open."""
    builder = StreamsBuilder("matching")
    values = builder.stream(re.compile("in-.*"), value=str).select_key(lambda _, value: value, key=str)
    values.repartition(partitions=2).group_by_key().windowed_by(Windows.tumbling("1s")).count()
    log = MemoryLog()
    log.create(Topic("in-a", 1))
    worker = Worker(builder.build(), log, lambda *_: MemoryStore(), max_ahead=None, chunk=10, commit_pause=0)

    def send(topic: str, partition: int, time: int) -> None:
        log.append(TopicPartition(topic, partition), Columns([None], [b"a"], [time]))

    def work() -> None:
        while worker.run_once() or not worker.commit():
            pass

    send("in-a", 0, 0)
    work()
    log.create(Topic("in-b", 4))
    deadline = time.monotonic() + 10
    while worker.plan.tasks[0] < 4 and time.monotonic() < deadline:
        work()
    for number in range(400):
        send("in-b", number % 4, number * 100)
    work()
    assert worker.metrics().records > 400
    assert worker.metrics().dropped == {}
    worker.close()


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_records_that_wait_for_a_versioned_table_find_its_history_when_time_jumps(chunk: int) -> None:
    """On a backlog, time behind the repartition topics moves by more than the history at once."""
    builder = StreamsBuilder("priced")
    sales, prices = (
        builder.stream(topic, key=str, value=int).select_key(lambda key, _: key, key=str).repartition()
        for topic in ("sales", "prices")
    )
    table = prices.to_table(versioned="10s")
    sales.join(table, lambda sale, price: [sale, price], grace="5s", value=list).to("priced")
    driver = Driver(builder.build(), partitions=2, chunk=chunk)
    driver.send_all(
        DriverRecord(topic, "tea", second, second * 1000 + place, second % 2, ())
        for second in range(100)
        for place, topic in enumerate(("prices", "sales"))
    )
    driver.send_all(DriverRecord("sales", "end", 0, 200_000, partition, ()) for partition in (0, 1))
    assert sorted(value for _, value in driver.read("priced")) == [[second, second] for second in range(100)]


@pytest.mark.parametrize("partitions", [2, 3])
@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_a_driver_joins_a_stream_with_a_repartitioned_one_that_is_sent_together_with_it(
    chunk: int, partitions: int
) -> None:
    builder = StreamsBuilder("paid")
    payments = builder.stream("payments", value=str).map(lambda _, user: (user, "paid"), key=str, value=str)
    orders = builder.stream("orders", key=str, value=str)
    orders.left_join(payments, lambda order, payment: f"{order} {payment}", within="1s").to("joined")
    driver = Driver(builder.build(), partitions=partitions, chunk=chunk)
    expected = []
    for start in (0, 100_000):
        seconds = range(start, start + 100_000, 5000)
        expected += [(user, f"{second} paid") for second in seconds for user in KEYS]
        driver.send_all(
            one
            for number, second in enumerate(seconds)
            for user in KEYS
            for one in (
                DriverRecord("orders", user, str(second), second, -1, ()),
                DriverRecord("payments", None, user, second + 500, number % partitions, ()),
            )
        )
    assert sorted(driver.read("joined")) == sorted(expected)


def test_tasks_that_read_what_each_other_announces_come_to_rest() -> None:
    """By a clock that stands still, what was unread a moment ago is not older than what is unread now."""
    builder = StreamsBuilder("named")
    orders, names = (builder.table(topic, key=str, value=str, versioned="1h") for topic in ("orders", "names"))
    orders.join(names, lambda order, name: f"{order} {name}", foreign_key=lambda order: order).to_stream().to("out")
    driver = Driver(builder.build(), partitions=2)
    turns = iter(range(100))
    work = driver.worker.run_once
    driver.worker.run_once = lambda timeout=0.0: next(turns) >= 0 and work(timeout)  # type: ignore[method-assign]
    driver.send_all([DriverRecord("orders", "o1", "x", 1, -1, ()), DriverRecord("names", "x", "X", 2, -1, ())])
    assert driver.read("out") == [("o1", "x X")]


class SlowLog(MemoryLog):
    """Answers questions about progress after 5 ms."""

    now = 0

    def progress(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, GroupProgress]:
        self.now += 5
        return super().progress(group, partitions)


def test_all_tasks_learn_that_a_partition_is_silent_while_the_others_are_busy() -> None:
    """Each of them has to find out; what one finds out must not undo what the others know, nor take all the looks."""
    log, now = SlowLog(), 0
    for topic in ("in", "out", "checked"):
        log.create(Topic(topic, 8))
    stores = lambda *_: MemoryStore()  # noqa: E731
    clock = lambda: log.now  # noqa: E731
    worker = Worker(
        closing(), log, stores, now=clock, steady=clock, max_ahead=None, commit_interval=1000, commit_pause=10
    )
    while log.now < 5000:
        log.now += 2
        while now <= log.now:
            for partition in range(1, 8):
                log.append(TopicPartition("in", partition), Columns([None], [b"%d" % (now // 5 % 50)], [now]))
            now += 5
        worker.run_once()
    behind = [task.progress.time for task in worker.tasks.values() if task.horizons.waits]
    assert len(behind) == 8
    assert min(behind) > 4000
    worker.close()


@pytest.mark.parametrize("seed", seeds(40))
def test_windows_close_with_the_updates_that_a_cache_holds_back(seed: int) -> None:
    random = Random(seed)
    builder = StreamsBuilder("cached")
    values = builder.stream("in", value=str).select_key(lambda _, value: value, key=str).repartition()
    counts = values.group_by_key().windowed_by(Windows.hopping("3s", every="1s", grace="2s")).count()
    closed = counts.suppress(until_window_closes()).to_stream()
    closed.map(lambda window, count: (f"{window.key} {window.start}", count), key=str, value=int).to("out")
    driver = Driver(builder.build(), partitions=3, cache=10_000_000, chunk=random.choice([1, 2, 7]))
    times = sorted(random.randrange(100_000) for _ in range(60))
    sent = [DriverRecord("in", None, random.choice("ab"), time, random.randrange(3), ()) for time in times]
    cut = random.randrange(60)
    for some in (sent[:cut], sent[cut:]):
        driver.send_all(some)
    driver.send_all(DriverRecord("in", None, value, 200_000, n, ()) for value in "ab" for n in range(3))
    expected = Counter(
        f"{one.value} {start}"
        for one in sent
        for start in range(one.timestamp // 1000 * 1000, -1, -1000)
        if start > one.timestamp - 3000
    )
    assert sorted(driver.read("out")) == sorted(expected.items())


@pytest.mark.parametrize("windows", [Windows.sliding("1m"), Windows.session("1m")])
def test_before_time_has_begun_only_the_segments_with_rows_are_searched(
    windows: SlidingWindows | SessionWindows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first no task has announced a time, and the first record is a month after the time 0."""
    searched = []
    scan_many = MemoryStore.scan_many

    def counted(store: MemoryStore, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        searched.append(len(ranges))
        return scan_many(store, ranges)

    monkeypatch.setattr(MemoryStore, "scan_many", counted)
    builder = StreamsBuilder("first")
    values = builder.stream("in", value=str).group_by(lambda _, value: value, key=str)
    values.windowed_by(windows).count(name="counts")
    driver = Driver(builder, partitions=2, origin_idle="1d")
    month = 30 * 24 * 3_600_000
    for seconds in (0, 30, 50):
        driver.send("in", "a", timestamp=month + seconds * 1000, partition=0)
        driver.restart()
    assert 3 in [count for _, count in driver.store("counts").all()]
    assert searched
    assert max(searched) < 10
