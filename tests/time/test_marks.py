"""Marks on the log: who writes them, when, and what happens with logs and positions of the version without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamtopo import StreamsBuilder, Topology, Windowed, Windows, Worker
from streamtopo.engine.task.marks import HEADER
from streamtopo.engine.topics.reset import plan_reset, reset, to_earliest
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, Position, TopicPartition
from streamtopo.serdes import STR
from streamtopo.serdes.windowed import windowed_key
from streamtopo.stores.backends.directory import StateDirectory
from tests.crash import seconds
from tests.crash.apps import catch_up

PARTITIONS = 2


def counting(emit: str = "on_update") -> Topology:
    builder = StreamsBuilder("marked")
    words = builder.stream("in", value=str).group_by(lambda _, word: word, key=str)
    words.windowed_by(Windows.tumbling("1s"), emit=emit).count(name="counts").to_stream().to("out")
    return builder.build()


class Machine:
    """A log, workers on it, and their wall clock, which the test moves."""

    def __init__(self, folder: Path) -> None:
        self.log, self.now, self._folder = MemoryLog(), 0, folder
        for name in ("in", "out"):
            self.log.create(Topic(name, PARTITIONS))

    def worker(self, topology: Topology, **options: Any) -> Worker:
        state = str(self._folder / "state")
        options = {"max_ahead": None, "commit_pause": 0} | options  # nothing depends on the speed of this machine
        clock = lambda: self.now  # noqa: E731
        return Worker(topology, self.log, state_dir=state, now=clock, steady=clock, **options)

    def write(self, partition: int, *times: int, word: str = "tea") -> None:
        values: list[bytes | None] = [word.encode()] * len(times)
        self.log.append(TopicPartition("in", partition), Columns([None] * len(times), values, list(times)))

    def out(self) -> list[tuple[Windowed, int]]:
        serde = windowed_key(STR, 1000)
        found = []
        for partition in range(PARTITIONS):
            columns = self.log.read(TopicPartition("out", partition), 0, 1 << 30).columns
            pairs = zip(serde.decode_column(columns.keys), columns.values, strict=True)
            found += [(window, int.from_bytes(value or b"")) for window, value in pairs]
        return found


def work(*workers: Worker) -> None:
    """Until none of them has anything to do, and all is committed."""
    idle = 0
    while idle < 3:
        worked = [worker.run_once() for worker in workers]
        idle = 0 if any(worked) else idle + 1


def marks(log: MemoryLog) -> int:
    found = 0
    for name, topic in log.topics().items():
        for partition in range(topic.partitions):
            headers = log.read(TopicPartition(name, partition), 0, 1 << 30).columns.headers or []
            found += sum(any(header == HEADER for header, _ in row) for row in headers)
    return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_count_without_windows_needs_no_marks(machine: Machine) -> None:
    builder = StreamsBuilder("unmarked")
    builder.stream("in", value=str).group_by(lambda _, word: word, key=str).count(name="counts").to_stream().to("out")
    machine.write(0, 1, 2, 3)
    work(machine.worker(builder.build()))
    assert marks(machine.log) == 0


def test_an_idle_worker_writes_nothing(machine: Machine) -> None:
    machine.write(0, 1, 2, 3)
    worker = machine.worker(counting())
    work(worker)
    machine.now += 1000
    work(worker)  # the silent partition is not waited for any longer
    written, commits = marks(machine.log), worker.metrics().commits
    assert written > 0
    for _ in range(100):
        machine.now += 100
        worker.run_once()
    assert (marks(machine.log), worker.metrics().commits) == (written, commits)


def test_marks_are_not_records(machine: Machine) -> None:
    machine.write(0, 1, 2, 3)
    machine.write(1, 1)
    worker = machine.worker(counting())
    work(worker)
    assert (worker.metrics().records, worker.metrics().lag) == (8, 0)


def test_a_worker_that_was_caught_up_and_stands_still_is_waited_for(machine: Machine) -> None:
    """It said that it had caught up. But there are records now that it has not read."""
    first, second = machine.worker(counting("on_close")), machine.worker(counting("on_close"))
    work(first, second)
    (slow,) = {id.partition for id in second.tasks if id.subtopology == 0}
    machine.write(1 - slow, 100, 5000)
    machine.write(slow, 200)
    for _ in range(100):
        machine.now += 100
        first.run_once()
    assert machine.out() == []
    work(first, second)
    machine.now += 1000
    work(first, second)
    assert machine.out() == [(Windowed("tea", 0, 1000), 2)]


def test_the_time_of_origins_survives_a_restart(machine: Machine) -> None:
    machine.write(0, 100, 2100)
    worker = machine.worker(counting("on_close"), origin_idle="1h")
    work(worker)
    worker.close()
    assert machine.out() == []
    machine.write(1, 200, 2100)
    work(machine.worker(counting("on_close"), origin_idle="1h"))
    assert machine.out() == [(Windowed("tea", 0, 1000), 2)]


def test_rows_of_a_version_without_marks_move_time_by_themselves(machine: Machine) -> None:
    topology = counting("on_close")
    work(stopped := machine.worker(topology))
    stopped.close()
    topic = "marked-counts-repartition"
    older = '{"partition":-1,"time":-1,"clocks":{},"due":{}}'
    ends = [machine.log.end(TopicPartition(topic, partition)) for partition in range(PARTITIONS)]
    positions = {TopicPartition("in", n): Position(0, older) for n in range(PARTITIONS)}
    positions |= {TopicPartition(topic, n): Position(end, older) for n, end in enumerate(ends)}
    machine.log.place_group("marked", positions)
    rows = Columns([b"tea"] * 2, [b"tea"] * 2, [100, 5000])
    machine.log.append(TopicPartition(topic, 0), rows)
    work(machine.worker(topology, origin_idle="1h"))
    assert machine.out() == [(Windowed("tea", 0, 1000), 1)]


def test_after_a_reset_no_clock_and_no_mark_is_left(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log")
    state = StateDirectory(tmp_path / "state", "per-second")
    seconds.create_topics(log)
    seconds.fill(log, 0, 2000)
    for _ in range(2):
        worker = Worker(
            seconds.per_second(), log, state_dir=str(tmp_path / "state"), cache=0, chunk=100, max_ahead=None
        )
        catch_up(worker)
        worker.close()
        assert seconds.LastCounts(log).read() == seconds.truth(2000)
        reset(seconds.per_second(), log, plan_reset(seconds.per_second(), log, to_earliest), state)
        log.delete("out")
        log.create(Topic("out", seconds.PARTITIONS))
    log.close()
