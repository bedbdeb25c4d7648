"""Workers join and leave while stores are restored: even if restoring is interrupted, the counts are right."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from streamtopo import StreamsBuilder, Topology, Worker
from streamtopo.logs import Topic
from streamtopo.logs.kafka import KafkaLog
from streamtopo.logs.opening import open_log
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from tests.kafka.brokers import emptied
from tests.logs.child import until
from tests.long import long

pytestmark = pytest.mark.kafka
PARTITIONS = 8
KEYS = [f"key {number}" for number in range(2400)]
SLICE = 5
"""Records that a store restores per turn, of the 300 it needs."""
MOST = 4
"""Number of workers at a time."""
PATIENCE = 600.0


def counting() -> Topology:
    builder = StreamsBuilder("cut-short")
    builder.stream("in", key=str).group_by_key().count(name="counts")
    return builder.build()


class Crowd:
    """Workers of one group, turn by turn in this thread; each starts with an empty disk."""

    def __init__(self, log: KafkaLog, folder: Path) -> None:
        self.workers: list[Worker] = []
        self.cut_short = 0
        """Tasks that moved, or whose worker ended, while they were restored."""
        self._log = log
        self._folder = folder
        self._joined = 0

    def join(self, chunk: int = SLICE) -> Worker:
        self._joined += 1
        state = str(self._folder / str(self._joined))
        self.workers.append(Worker(counting(), self._log, state_dir=state, cache=0, chunk=chunk))
        return self.workers[-1]

    def leave(self, worker: Worker, *, orderly: bool) -> None:
        self.workers.remove(worker)
        self.cut_short += len(worker.opening)
        if orderly:
            worker.close()
        else:
            worker.abandon()

    def turn(self) -> None:
        for worker in self.workers:
            restored = set(worker.opening)
            worker.run_once(0.01)
            self.cut_short += len(restored - worker.opening.keys() - worker.tasks.keys())

    def done(self, records: int) -> bool:
        """Return whether this many records are committed, after one more turn."""
        self.turn()
        group = self._log.group("cut-short")
        return group is not None and sum(at.offset for at in group.positions.values()) == records


@contextmanager
def crowd(kafka: str, protocol: str, folder: Path) -> Iterator[tuple[Crowd, KafkaLog]]:
    emptied(kafka).close()
    log = open_log(f"{kafka}?kafka.group.protocol={protocol}&kafka.heartbeat.interval.ms=200")
    assert isinstance(log, KafkaLog)
    log.create(Topic("in", PARTITIONS))
    workers = Crowd(log, folder)
    yield workers, log
    for worker in workers.workers:
        worker.close()
    log.close()


def feed(log: KafkaLog, keys: Iterable[str]) -> None:
    by_partition: dict[int, list[bytes | None]] = {}
    for key in map(str.encode, keys):
        by_partition.setdefault(partition_of(key, PARTITIONS), []).append(key)
    for partition, some in by_partition.items():
        log.append(TopicPartition("in", partition), Columns(some, [b""] * len(some), [0] * len(some)))


@pytest.mark.parametrize(
    ("protocol", "times"),
    [("consumer", 10), pytest.param("consumer", 200, marks=long), pytest.param("classic", 200, marks=long)],
)
def test_interrupted_restorations_leave_correct_counts(kafka: str, tmp_path: Path, protocol: str, times: int) -> None:
    rng = random.Random(times)
    fed = Counter(KEYS)
    with crowd(kafka, protocol, tmp_path) as (workers, log):
        feed(log, KEYS)
        workers.join(chunk=10_000)
        until(lambda: workers.done(fed.total()), PATIENCE)

        def disturbed() -> bool:
            if len(workers.workers) == 1 or (len(workers.workers) < MOST and rng.random() < 0.5):
                workers.join()
            else:
                workers.leave(rng.choice(workers.workers), orderly=rng.random() < 0.5)
            some = rng.choices(KEYS, k=10)
            feed(log, some)
            fed.update(some)
            for _ in range(rng.randrange(40)):
                workers.turn()
            return workers.cut_short >= times

        until(disturbed, PATIENCE)
        until(lambda: workers.done(fed.total()), PATIENCE)
        for worker in list(workers.workers):
            workers.leave(worker, orderly=True)
        assert restored(workers) == fed


def restored(workers: Crowd) -> dict[str, int]:
    last = workers.join(chunk=10_000)
    until(lambda: not last.run_once(0.05) and len(last.tasks) == PARTITIONS, PATIENCE)
    views = [task.states["counts"] for task in last.tasks.values()]
    return {key: row[0] for key in KEYS for view in views if (row := view.row(key)) is not None}


def test_a_worker_with_a_name_of_its_own_keeps_its_tasks_while_it_restarts(kafka: str, tmp_path: Path) -> None:
    emptied(kafka).close()
    with ExitStack() as stack:
        urls = [f"{kafka}?kafka.group.instance.id={name}&kafka.heartbeat.interval.ms=200" for name in ("a", "b")]
        logs = [stack.enter_context(closing(open_log(url))) for url in urls]
        logs[0].create(Topic("in", PARTITIONS))

        def start(number: int) -> Worker:
            return Worker(counting(), logs[number], state_dir=str(tmp_path / str(number)))

        restarted, other = workers = [start(0), start(1)]
        until(lambda: [turn(worker) for worker in workers] == [PARTITIONS // 2] * 2, PATIENCE)
        before = set(restarted.tasks)
        restarted.close()
        most = max(turn(other) for _ in range(50))
        restarted = start(0)
        until(lambda: max(turn(other), turn(restarted)) == PARTITIONS // 2 and set(restarted.tasks) == before, PATIENCE)
        assert most == PARTITIONS // 2
        restarted.close()
        other.close()


def turn(worker: Worker) -> int:
    """Return how many tasks it has after one more turn."""
    worker.run_once(0.05)
    return len(worker.tasks)
