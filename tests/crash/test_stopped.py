"""Workers that are paused while their tasks move, that share one directory, or whose clock is set back."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamtopo import Worker
from streamtopo.engine.assignment import tasks
from streamtopo.errors import LogError
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.embedded.group import member_file
from streamtopo.logs.embedded.storage import database
from streamtopo.records import TopicPartition
from streamtopo.stores.backends.directory import StateDirectory
from tests.crash.apps import PARTITIONS, catch_up, check, counting, feed, finished, new_log, parts, working, written
from tests.crash.lives import LEASE, Point, asleep, living, serve, serving, until

LOG = "streamtopo.logs.embedded"
SLEEPS = [
    Point("streamtopo.engine.worker.worker:Worker._process", "before", 5),
    Point("streamtopo.engine.worker.worker:commit", "before", 3),
    Point(f"{LOG}.group.member:EmbeddedMember.poll", "before", 5),
    Point(f"{LOG}.group.member:EmbeddedMember.commit", "before", 3),
    Point(f"{LOG}.group.member:EmbeddedMember.commit", "after", 3),
    Point("streamtopo.stores.backends.rocks:RocksStore.write", "before", 3),
    Point("streamtopo.engine.task.task:Task.open", "before", 5),
    Point("streamtopo.engine.assignment.restoration:Restoration.__post_init__", "after", 2),
    Point("streamtopo.engine.assignment.tasks:Tasks._begin", "before", 4),
    Point("streamtopo.stores.backends.directory:StateDirectory.open", "before", 2),
]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    log = new_log(tmp_path / "log", lease=LEASE)
    yield log
    log.close()


@pytest.mark.parametrize("point", SLEEPS, ids=str)
def test_a_paused_worker_whose_tasks_move_commits_nothing(log: EmbeddedLog, tmp_path: Path, point: Point) -> None:
    """It commits nothing when it resumes, and takes its share again, also if records it was about to read are gone."""
    feed(log, 0, 600)
    with living(serve, log.path, tmp_path / "state", point) as sleeper:
        until(lambda: asleep(sleeper), "falling asleep")
        with living(serve, log.path, tmp_path / "state") as other:
            until(lambda: finished(log, 600), "all of it")
            for part in parts("crash-counts-repartition"):
                log.delete_before(part, log.end(part))  # as the other worker does after a while
            before = {part: log.end(part) for topic in log.topics() for part in parts(topic)}
            os.kill(sleeper.pid or 0, signal.SIGCONT)
            until(lambda: shared(log) or not sleeper.is_alive(), "sharing the work again")
            assert sleeper.is_alive()
            assert {part: log.end(part) for part in before} == before
            feed(log, 600, 900)
            until(lambda: finished(log, 900), "the rest")
            for process in (sleeper, other):
                os.kill(process.pid or 0, signal.SIGTERM)
                process.join(30)
            assert (sleeper.exitcode, other.exitcode) == (0, 0)
    check(log, tmp_path / "state", 900)


def test_a_worker_paused_inside_a_transaction(
    log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the log's write lock: others report that, and end or wait; it continues when it resumes."""
    monkeypatch.setattr(database, "PATIENCE", 0.5)
    feed(log, 0, 300)
    point = Point(f"{LOG}.group.group_statements:write_positions", "before", 3)
    with living(serve, log.path, tmp_path / "state", point) as sleeper:
        until(lambda: asleep(sleeper), "falling asleep")
        with pytest.raises(LogError, match="another process has been writing for too long; look for a stopped process"):
            catch_up(Worker(counting(), log, state_dir=str(tmp_path / "other")))
        os.kill(sleeper.pid or 0, signal.SIGCONT)
        until(lambda: finished(log, 300), "all of it")
        os.kill(sleeper.pid or 0, signal.SIGTERM)
        sleeper.join(30)
    check(log, tmp_path / "state", 300)


def shared(log: EmbeddedLog) -> bool:
    """Return whether two members have all partitions of both inputs between them."""
    owned = log.groups()["crash"].members.values()
    return len(owned) == 2 and all(owned) and sum(map(len, owned)) == 2 * PARTITIONS


# -- two workers in one directory


def test_a_worker_of_another_log_with_the_same_state_directory_waits(
    log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits, says for which worker, and does nothing until then."""
    monkeypatch.setattr(tasks, "PATIENCE", 0.1)
    other = new_log(tmp_path / "other")
    feed(log, 0, 100)
    feed(other, 0, 200)
    first = serving(log, tmp_path / "state")
    catch_up(first)
    second = serving(other, tmp_path / "state")
    in_use = rf'counts-\d" is in use by process {os.getpid()} on .*; stop it, or give this worker another --state-dir'
    run_until(second, lambda: "has waited for its state" in caplog.text)
    assert re.search(in_use, caplog.text)
    assert written(other, "out") == 0
    assert second.metrics().lag is None
    first.close()
    check(log, tmp_path / "state", 100)
    run_until(second, lambda: finished(other, 200))
    second.close()
    check(other, tmp_path / "state", 200)
    other.close()


def test_a_worker_whose_step_hangs_loses_its_tasks_and_the_next_one_waits(
    log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its process runs, so its locks do not look stopped; when the step ends, it releases the stores."""
    monkeypatch.setattr(member_file, "UNUSED", 0.2)
    monkeypatch.setattr(tasks, "PATIENCE", 0.1)
    feed(log, 0, 300)
    hangs, ends = threading.Event(), threading.Event()
    thread = threading.Thread(target=hang, args=(log.path, tmp_path / "state", hangs, ends), daemon=True)
    thread.start()
    try:
        assert hangs.wait(60)
        worker = serving(log, tmp_path / "state")
        warning = rf'task \d_\d has waited for its state .*"{tmp_path}.*" is in use by process {os.getpid()} on '
        run_until(worker, lambda: re.search(warning, caplog.text))
        run_until(worker, lambda: written(log, "negated") == 300)
        ends.set()
        run_until(worker, lambda: finished(log, 300))
    finally:
        ends.set()
        thread.join()
    worker.close()
    check(log, tmp_path / "state", 300)


def hang(log_path: Path, state_dir: Path, hangs: threading.Event, ends: threading.Event) -> None:
    """Run a worker that owns all tasks and hangs before its first commit until it may continue; then it stops."""
    log = EmbeddedLog(log_path, lease=LEASE)
    worker = serving(log, state_dir)
    until(lambda: worker.run_once() and len(worker.tasks) == 2 * PARTITIONS)
    hangs.set()
    ends.wait()
    worker.run_once()
    worker.close()
    log.close()


def test_a_task_still_held_by_its_last_owner_is_opened_later(log: EmbeddedLog, tmp_path: Path) -> None:
    """Other tasks continue, and it is opened as soon as it is free."""
    held = StateDirectory(tmp_path / "state", "crash").open(["counts"], 1)
    feed(log, 0, 300)
    worker = Worker(counting(), log, state_dir=str(tmp_path / "state"), cache=0, chunk=20)
    run_until(worker, lambda: written(log, "negated") == 300 and len(worker.tasks) == 2 * PARTITIONS - 1)
    assert not finished(log, 300)
    held.release()
    run_until(worker, lambda: finished(log, 300))
    worker.close()
    check(log, tmp_path / "state", 300)


def test_a_task_that_fails_to_open_releases_its_state(
    log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same process tries again, as a service does."""
    feed(log, 0, 300)
    with monkeypatch.context() as away:
        away.setattr(log, "end", failing_for("crash-counts-changelog", log.end))
        first = Worker(counting(), log, state_dir=str(tmp_path / "state"), cache=0)
        with pytest.raises(LogError, match="away for a moment"):
            run_until(first, lambda: finished(log, 300))
        first.abandon()
    with working(counting(), log, tmp_path / "state", cache=0):
        pass
    check(log, tmp_path / "state", 300)


def failing_for(topic: str, ask: Callable[[TopicPartition], int]) -> Callable[[TopicPartition], int]:
    def end(part: TopicPartition) -> int:
        if part.topic == topic:
            raise LogError("the log is away for a moment")
        return ask(part)

    return end


def run_until(worker: Worker, condition: Callable[[], object]) -> None:
    def met() -> object:
        worker.run_once(0.001)
        return condition()

    until(met)


# -- clocks


def test_results_are_right_when_the_clock_is_set_back(log: EmbeddedLog, tmp_path: Path) -> None:
    clock = [time.time_ns() // 1_000_000]
    worker = Worker(counting(), log, state_dir=str(tmp_path / "state"), now=lambda: clock[0], cache=0, chunk=20)
    for number in range(10):
        feed(log, 30 * number, 30 * number + 30)
        clock[0] -= 3_600_000
        catch_up_on(worker, clock)
        assert finished(log, 30 * number + 30)
    worker.close()
    check(log, tmp_path / "state", 300)
    feed(log, 300, 330)
    with working(counting(), log, tmp_path / "state", cache=0):
        pass
    check(log, tmp_path / "state", 330)


def catch_up_on(worker: Worker, clock: list[int]) -> None:
    """As `catch_up`, with a clock that advances by a millisecond per turn."""
    deadline = time.monotonic() + 60
    while worker.run_once() or worker._pace.undurable or not worker.tasks or worker.metrics().lag != 0:
        clock[0] += 1
        assert time.monotonic() < deadline, worker.metrics()
