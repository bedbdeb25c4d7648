"""The live view, and the lines that are printed without a terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from streamtopo.cli.running.live_view import LiveView, RestoreBars
from streamtopo.cli.running.progress import LineView, ProgressReporter, ProgressUpdate, Rate, numbers_text, waits
from streamtopo.engine.metrics import Metrics, RestoreProgress, TimeHeldBack
from streamtopo.records import TopicPartition

METRICS = Metrics(("0_0",), (RestoreProgress("counts", 3, 250, 1000),), 1234, 5, 7, 2.55, 1, {"null key": 2})


def drawn(stores: RestoreBars, restoring: tuple[RestoreProgress, ...]) -> list[str]:
    console = Console(file=StringIO(), width=100)
    with console.capture() as capture:
        console.print(stores.render(restoring))
    return capture.get().splitlines()


def test_a_bar_for_each_store_that_is_being_restored() -> None:
    stores = RestoreBars(Console(file=StringIO()))
    (line,) = drawn(stores, METRICS.restoring)
    assert line.startswith("restoring counts 3 ")
    assert "25 %" in line
    many = tuple(RestoreProgress("other", number, 1, 2) for number in range(10))
    *bars, more = drawn(stores, many)
    assert [line.split()[:3] for line in bars] == [["restoring", "other", str(number)] for number in range(8)]
    assert more == "and 2 more"


def test_numbers_are_shown_in_one_line() -> None:
    assert numbers_text(ProgressUpdate(METRICS, 617.0, None)) == (
        "617 records/s, 1,234 in total, lag 5, commit 2.5 ms, 1 task, restoring 1 store, 25 % of 1,000 records, "
        "skipped 1, dropped for null key 2"
    )


def test_an_unknown_lag_is_not_shown_as_0() -> None:
    update = ProgressUpdate(METRICS._replace(lag=None, restoring=(), ahead=3), 617.0, None)
    assert numbers_text(update) == (
        "617 records/s, 1,234 in total, lag unknown, commit 2.5 ms, 1 task, skipped 1, dropped for null key 2, "
        "too far ahead of the clock 3"
    )


def test_what_time_waits_for_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    held = TimeHeldBack("0_3", (TopicPartition("orders", 3),), "behind", 720_000, since=10_000)
    several = [held._replace(partitions=(TopicPartition("orders", number),)) for number in range(3, 9)]
    update = ProgressUpdate(METRICS._replace(restoring=(), held_back=(held,)), 0.0, None, now=50_000)
    line = "time waits for orders/3 (task 0_3): 12 min behind, for 40 s"
    assert numbers_text(update).endswith(f", dropped for null key 2; {line}")
    assert waits(update._replace(metrics=METRICS._replace(held_back=tuple(several))))[2:] == [
        "time waits for orders/5 (task 0_3): 12 min behind, for 40 s",
        "and for 3 other tasks",
    ]
    view = LiveView()
    view.show(update)
    view.close()
    assert capsys.readouterr().out.splitlines()[-1] == line


def test_a_line_when_the_tasks_change(capsys: pytest.CaptureFixture[str]) -> None:
    lines = LineView()
    for metrics in (METRICS, METRICS, METRICS._replace(restoring=(), records=0, lag=0)):
        lines.show(ProgressUpdate(metrics, 0.0, None))
    assert [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()] == [
        "restoring 1 store, 25 % of 1,000 records; 1 task running: 0_0",
        "1 task running: 0_0",
    ]


def test_the_last_line_says_what_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    for metrics in (METRICS, METRICS._replace(skipped=0, dropped={"late": 0})):
        ProgressReporter(LineView(), None).end(metrics)
    assert [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()] == [
        "stopped after 1,234 records, skipped 1, dropped for null key 2; all results are committed",
        "stopped after 1,234 records; all results are committed",
    ]


def test_the_rate_is_for_the_last_second() -> None:
    rate = Rate()
    for now, total in ((0.0, 0), (1.0, 1000), (1.5, 1100), (2.0, 1200), (2.5, 1300)):
        rate.add(now, total)
    assert rate.per_second == 200
