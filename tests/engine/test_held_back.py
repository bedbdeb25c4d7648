"""What time waits for: shown in the metrics, and in a warning when it takes long."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import StreamsBuilder, Topology, Windows
from streamtopo.engine.metrics import TimeHeldBack, Why, held_back_by
from streamtopo.engine.worker.worker import Worker
from streamtopo.logs import Log, Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.testing import Cluster, seeds

MINUTE = 60_000
A, B = TopicPartition("a", 1), TopicPartition("b", 1)


def per_hour(*topics: str) -> Topology:
    """Orders by hour: one task for each partition of the topics, and one for each partition behind them."""
    builder = StreamsBuilder("shop")
    orders = builder.stream(*topics, key=str, value=str).group_by(lambda key, _: key, key=str)
    windows = orders.windowed_by(Windows.tumbling("1h"), emit="on_close").count()
    windows.to_stream(lambda window, _: window.key, key=str).to("per-hour")
    return builder.build()


def regrouped() -> Topology:
    """The same with another repartition topic behind the windows, and with stores before the first one."""
    builder = StreamsBuilder("shop")
    numbers = builder.stream("orders", key=str, value=str).group_by_key().count().to_stream()
    for _ in range(2):
        windows = numbers.group_by(lambda key, _: key, key=str).windowed_by(Windows.tumbling("1h")).count()
        numbers = windows.to_stream(lambda window, _: window.key, key=str)
    numbers.to("per-hour")
    return builder.build()


class Shop:
    """Two workers on one log, and their wall clock. The second one is in the group, but runs only if a test says so."""

    def __init__(self, topology: Topology, log: Log | None = None, *, partitions: int = 2, **options: Any) -> None:
        self.now = 0
        self.log = log or MemoryLog()
        for topic in ("orders", "returns", "per-hour"):
            self.log.create(Topic(topic, partitions))
        self.here, self.there = [
            Worker(
                topology,
                self.log,
                lambda *_: MemoryStore(),
                now=lambda: self.now,
                steady=lambda: self.now,
                max_ahead=None,
                **options,
            )
            for _ in range(2)
        ]
        first, second = self.here.member, self.there.member
        everything = first.assignment()
        second.assignment()
        first.release(everything - first.assignment())  # before a task is opened

    def order(self, worker: Worker, time: int) -> None:
        """Append orders that each task behind the repartition topic gets, to a partition that this worker reads."""
        keys = [bytes([key]) for key in b"abcdefghijklmnopqrst"]
        columns = Columns(list(keys), [b""] * len(keys), [time] * len(keys))
        self.log.append(TopicPartition("orders", partition_of(worker)), columns)

    def run(self, *workers: Worker, now: int | None = None) -> None:
        """Until nothing is left to do or to announce."""
        self.now = self.now if now is None else now
        for _ in range(5):
            for worker in workers:
                while worker.run_once():
                    pass
                worker.commit()

    def shown(self) -> list[str]:
        return [held.in_words(self.now) for held in self.here.metrics().held_back]


def partition_of(worker: Worker) -> int:
    return min(one.partition for one in worker.member.assignment() if one.topic == "orders")


def place(worker: Worker) -> str:
    return f"orders/{partition_of(worker)} (task 0_{partition_of(worker)})"


def test_a_task_that_nobody_has_started() -> None:
    shop = Shop(per_hour("orders"))
    absent = partition_of(shop.there)
    shop.order(shop.here, 5 * MINUTE)
    shop.run(shop.here, now=1_000)
    shop.run(shop.here, now=41_000)
    held = TimeHeldBack(f"0_{absent}", (TopicPartition("orders", absent),), "not started", None, since=1_000)
    assert shop.here.metrics().held_back == (held,)
    assert shop.shown() == [f"time waits for {place(shop.there)}: not started, for 40 s"]
    shop.order(shop.there, 6 * MINUTE)
    shop.run(shop.there, shop.here)
    shop.run(shop.there, shop.here, now=42_000)
    assert shop.shown() == []


def test_a_task_that_is_behind() -> None:
    shop = Shop(per_hour("orders"), chunk=20)
    shop.order(shop.here, 15 * MINUTE)
    for time in (3, 4):
        shop.order(shop.there, time * MINUTE)
    while shop.there.metrics().records < 20:
        shop.there.run_once()
        shop.there.commit()
    shop.run(shop.here, now=1_000)
    shop.run(shop.here, now=41_000)
    assert shop.shown() == [f"time waits for {place(shop.there)}: 12 min behind, for 40 s"]
    shop.order(shop.here, 16 * MINUTE)
    shop.run(shop.here)
    assert shop.shown() == [f"time waits for {place(shop.there)}: 13 min behind, for 40 s"]
    shop.run(shop.there, shop.here)
    assert shop.shown() == [f"time waits for {place(shop.there)}: 60 s behind, idle, moving"]


def test_a_task_that_had_read_all_and_has_unread_records_now() -> None:
    shop = Shop(per_hour("orders", "returns"))
    for worker in (shop.here, shop.there):
        shop.order(worker, 0)
    shop.run(shop.here, shop.there)
    shop.order(shop.here, 12 * MINUTE)
    shop.order(shop.there, MINUTE)
    shop.run(shop.here)
    (idle,) = shop.here.metrics().held_back
    assert (idle.why, [one.topic for one in idle.partitions]) == ("idle", ["orders", "returns"])
    shop.run(shop.here, now=400_000)
    shop.run(shop.here, now=401_000)
    assert shop.shown() == [f"time waits for {place(shop.there)}: 12 min behind, with unread records, for 7 min"]


def test_a_task_that_has_nothing_to_read_is_waited_for_until_it_is_known() -> None:
    shop = Shop(per_hour("orders"), origin_idle="10s")
    for worker in (shop.here, shop.there):
        shop.order(worker, 0)
    shop.run(shop.here, shop.there)
    shop.order(shop.here, 2 * MINUTE)
    shop.run(shop.here)
    shop.run(shop.here, now=9_000)
    assert shop.shown() == [f"time waits for {place(shop.there)}: 2 min behind, idle, for 9 s"]
    shop.run(shop.here, now=10_000)
    assert shop.shown() == []


def test_a_task_that_many_wait_for_is_shown_once_also_behind_others() -> None:
    shop = Shop(regrouped(), partitions=4)
    for worker in (shop.here, shop.there):
        shop.order(worker, 0)
    for now in (1_000, 2_000, 3_000):
        shop.run(shop.here, shop.there, now=now)
    assert shop.shown() == []
    shop.order(shop.there, MINUTE)
    shop.order(shop.here, 12 * MINUTE)
    for now in (4_000, 5_000):
        shop.run(shop.here, now=now)
    assert [task.id.subtopology for task in shop.here.tasks.values()] == [0, 0, 1, 1, 2, 2]
    assert shop.shown() == [
        f"time waits for {place(shop.there)}: 12 min behind, with unread records, for 1 s; 4 tasks wait"
    ]


def test_a_task_whose_stores_are_being_restored() -> None:
    shop = Shop(regrouped(), chunk=2)
    gone = place(shop.there)
    shop.order(shop.there, 0)
    shop.order(shop.there, MINUTE)
    for _ in range(6):
        shop.there.run_once()
        shop.there.commit()
    shop.order(shop.here, 12 * MINUTE)
    shop.run(shop.here)
    shop.there.abandon()
    shop.here.run_once()
    assert shop.here.metrics().restoring
    assert shop.shown()[0] == f"time waits for {gone}: 12 min behind, restoring its stores, moving"


def test_a_warning_says_what_time_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop(per_hour("orders"), partitions=4, origin_idle="1s")
    shop.order(shop.here, 0)
    for now in (0, 30_900, 31_000, 60_000, 329_000, 331_000, 400_000):
        shop.run(shop.here, now=now)
        if now == 30_900:
            assert caplog.messages == []
    first, again = caplog.messages
    assert first == (
        f"time waits for {place(shop.there)}: not started, for 31 s; 2 tasks wait. It has never announced a time: "
        "start its worker, or look at the log of the worker that has it. Until it continues, windows after it stay "
        "open. To see the worker and lag of each partition: streamtopo groups describe shop"
    )
    assert again.startswith(f"time waits for {place(shop.there)}: not started, for 6 min; 2 tasks wait. ")


def test_a_rollback_does_not_change_since_when() -> None:
    shop = Shop(per_hour("orders"))
    shop.order(shop.here, MINUTE)
    shop.run(shop.here, now=1_000)
    for task in shop.here.tasks.values():
        task.rollback()
    shop.run(shop.here, now=5_000)
    assert [held.since for held in shop.here.metrics().held_back] == [1_000]


@pytest.mark.parametrize("seed", seeds(10))
def test_nothing_is_waited_for_in_the_end(seed: int) -> None:
    with Cluster(per_hour("orders"), seed=seed) as cluster:
        for place in range(40):
            cluster.send("orders", "", key=str(place), timestamp=place * MINUTE, partition=place % 3)
        cluster.run()
        cluster.advance(wall_clock_ms=2_000)
        assert [worker.metrics().held_back for worker in cluster.workers] == [()] * 3


def test_what_several_workers_wait_for() -> None:
    one = TimeHeldBack("0_1", (A, B), "idle", None, since=7, tasks=2)
    other = TimeHeldBack("0_1", (B,), "unread", 500, since=9)
    longer = TimeHeldBack("0_2", (A, B), "behind", 5, since=3)
    assert held_back_by([one, other, longer]) == (longer, other._replace(since=7, tasks=3))


@pytest.mark.parametrize(
    ("why", "behind_ms", "shown"), [("idle", 100_000, False), ("behind", 100, False), ("behind", 100_000, True)]
)
def test_pauses_between_commits_are_not_worth_showing(why: Why, behind_ms: int, shown: bool) -> None:
    held = TimeHeldBack("0_1", (A,), why, behind_ms, since=5_000)
    assert [held.worth_showing(now) for now in (5_100, 6_000)] == [shown, True]
