"""A pool of processes: their metrics, and what happens when they end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from streamtopo.engine.metrics import Failures, Metrics, RestoreProgress, TimeHeldBack, together
from streamtopo.engine.processes import pool as pool_module
from streamtopo.engine.processes.pool import Pool, PoolError
from streamtopo.records import TopicPartition

HELD = TimeHeldBack("0_3", (TopicPartition("orders", 3),), "behind", 720_000, since=10_000)
RESTORING = (RestoreProgress("counts", 0, 1, 2),)
FAILED = (
    Failures("map", "ValueError", "dead-letter", "to_cents, orders.py:31", 3),
    Failures("map", "KeyError", "skip", "", 1),
)
METRICS = Metrics(
    ("0_0",), RESTORING, 5, 7, 1, 2.5, 1, {"null key": 1}, held_back=(HELD,), dead_letters=3, failures=FAILED
)
LIFELINE = """
import os, signal, sys, time
from streamtopo.engine.processes.lifeline import Lifeline
from streamtopo.engine.metrics import Failures, Metrics, RestoreProgress, TimeHeldBack
from streamtopo.records import TopicPartition
lifeline = Lifeline(int(sys.argv[1]))
"""


def command(code: str) -> Callable[[int], list[str]]:
    return lambda descriptor: [sys.executable, "-c", LIFELINE + code, str(descriptor)]


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_DELAYS", (0.0, 0.0))


def failure(pool: Pool) -> str:
    with pytest.raises(PoolError) as failed:
        pool.run()
    return str(failed.value)


def test_metrics_of_all_processes_are_added_up() -> None:
    pool = Pool(command(f"lifeline.report({METRICS!r}); time.sleep(600)"), 2, print)
    seen: list[tuple[int, int | None, tuple[TimeHeldBack, ...]]] = []

    def stop_when_both_reported() -> None:
        seen.append((pool.metrics().records, pool.metrics().lag, pool.metrics().held_back))
        if seen[-1][0] == 10:
            pool.stop()

    pool.run(each_turn=stop_when_both_reported)
    assert {lag for records, lag, _ in seen if records < 10} == {None}  # unknown until all processes have reported
    assert seen[-1] == (10, 14, (HELD._replace(tasks=2),))
    assert pool.metrics() == together([METRICS.ended(), METRICS.ended()])
    assert (pool.metrics().skipped, pool.metrics().dead_letters) == (2, 6)
    assert [str(one) for one in pool.metrics().failures] == [
        "dead letters 6 in map (to_cents, orders.py:31): ValueError",
        "skipped 2 in map: KeyError",
    ]


def test_together_adds_up_metrics() -> None:
    other = Metrics(("1_0",), (), 1, 1, 1, 9.0, 1, {"null key": 2, "late": 1})
    both = METRICS._replace(
        tasks=("0_0", "1_0"), records=6, lag=8, commits=2, commit_ms=9.0, skipped=2, dropped={"null key": 3, "late": 1}
    )
    assert together([METRICS, other._replace(lag=None)]).lag is None
    assert together([METRICS, other]) == both


def test_a_failure_ends_the_pool_and_is_reported_once() -> None:
    output: list[str] = []
    pool = Pool(command("lifeline.fail('Error: it cannot be done'); sys.exit(1)"), 3, output.append)
    assert failure(pool) == "Error: it cannot be done"
    assert output == []


def test_an_end_without_an_explanation_is_reported_with_the_last_output() -> None:
    output: list[str] = []
    text = failure(Pool(command("sys.exit('nothing works')"), 1, output.append))
    assert text == "Error: worker process 1 of 1 ended with exit code 1; the last that it wrote:\n  nothing works"
    assert output == ["nothing works"]


def test_a_process_that_dies_repeatedly_is_given_up() -> None:
    output: list[str] = []
    text = failure(Pool(command("os.kill(os.getpid(), signal.SIGKILL)"), 1, output.append))
    died = "worker process 1 of 1 died 3 times before it had done anything, the last time killed by SIGKILL"
    assert text == f"Error: {died}; it wrote nothing to standard error"
    assert output == ["worker process 1 of 1 is gone (killed by SIGKILL); another one takes its place"] * 2


def test_a_process_that_did_some_work_before_it_died_is_always_replaced(tmp_path: Path) -> None:
    file = tmp_path / "starts"
    code = f"open({str(file)!r}, 'a').write('x'); lifeline.report({METRICS!r}); os.kill(os.getpid(), signal.SIGKILL)"
    pool = Pool(command(code), 1, lambda line: None)

    def stop_after_many() -> None:
        if file.exists() and len(file.read_text()) >= 6:
            pool.stop()

    pool.run(each_turn=stop_after_many)
    assert pool.metrics().records >= 5 * METRICS.records


def test_a_process_is_replaced_at_once_even_if_its_children_still_run(tmp_path: Path) -> None:
    """Forked user code inherits the process's end of the lifeline. The second process kills the child of the first.

    Python 3.12 and later warn of a fork in a process with threads; the warning is
    passed on, as everything that the process writes.
    """
    code = f"""
import pathlib
left = pathlib.Path({str(tmp_path / "left")!r})
if left.exists():
    os.kill(int(left.read_text()), signal.SIGKILL)
    lifeline.report({METRICS!r})
    time.sleep(600)
if (forked := os.fork()) == 0:
    time.sleep(20)
    left.with_name("waited for").touch()
    os._exit(0)
left.write_text(str(forked))
os.kill(os.getpid(), signal.SIGKILL)
"""
    output: list[str] = []
    pool = Pool(command(code), 1, output.append)

    def stop_when_it_reported() -> None:
        if pool.metrics().records:
            pool.stop()

    pool.run(each_turn=stop_when_it_reported)
    gone = "worker process 1 of 1 is gone (killed by SIGKILL); another one takes its place"
    assert [line for line in output if line.startswith("worker process")] == [gone]
    assert not (tmp_path / "waited for").exists()


def test_a_process_that_is_stopped_ends_with_the_others() -> None:
    code = f"lifeline.report({METRICS!r}); os.kill(os.getpid(), signal.SIGSTOP); time.sleep(600)"
    pool = Pool(command(code), 2, print)

    def stop_when_both_reported() -> None:
        if pool.metrics().records == 10:
            pool.stop()

    waiting = threading.Thread(target=pool.run, kwargs={"each_turn": stop_when_both_reported}, daemon=True)
    waiting.start()
    waiting.join(20)
    stuck = waiting.is_alive()
    for child in pool._living() if stuck else ():
        child.kill()
    assert not stuck


FAILING_AT_THE_END = f"""
def fail(*_):
    lifeline.fail('Error: the disk is full')
    os._exit(1)
signal.signal(signal.SIGTERM, fail)
lifeline.report({METRICS!r})
while True:
    time.sleep(0.01)  # not once for long: Python notices a signal that comes just before a sleep only after it
"""


def test_a_failed_final_commit_is_a_failure() -> None:
    pool = Pool(command(FAILING_AT_THE_END), 1, print)

    def stop_when_ready() -> None:
        if pool.metrics().records:
            pool.stop()

    with pytest.raises(PoolError, match="Error: the disk is full"):
        pool.run(each_turn=stop_when_ready)


def test_a_process_that_does_not_end_is_killed_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_GRACE", 0.0)
    ready = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); lifeline.report({METRICS!r}); time.sleep(600)"
    pool = Pool(command(ready), 2, print, within=0.1)

    def stop_when_ready() -> None:
        if pool.metrics().records == 10:
            pool.stop()

    with pytest.raises(PoolError, match=r"did not end within 0\.1 s of the signal, and were killed"):
        pool.run(each_turn=stop_when_ready)
