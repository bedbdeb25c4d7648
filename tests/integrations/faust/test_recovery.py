"""Workers that die, and workers that share: nothing is lost, and tables are what their changelogs say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from tests.cli.workers import until
from tests.integrations.faust.workers import FaustWorker, feed, records, table, write_app

# Setting a value twice changes nothing, so what Faust promises, each record at least once, has one result.
APP = """
import faust

app = faust.App("places", broker="kafka://localhost:9092", topic_partitions=3, broker_commit_interval=0.3)
visits = app.topic("visits", key_type=str, value_type=int)
last = app.Table("last", default=int, partitions=3)
of_tens = app.Table("of-tens", default=int, partitions=3)
minutes = app.Table("minutes", default=int, partitions=3).tumbling(60.0, expires=3600.0)
everywhere = app.GlobalTable("everywhere", default=int, partitions=3)


@app.agent(visits)
async def visit(stream):
    async for key, number in stream.items():
        last[key] = max(last[key], number)
        minutes[key] = number
        everywhere[key] = number


@app.agent(visits)
async def tens(stream):
    async for number in stream.group_by(lambda number: str(number % 10), name="ten"):
        of_tens[str(number % 10)] = max(of_tens[str(number % 10)], number)


@app.on_rebalance_complete.connect
async def ready(sender, **kwargs):
    print(f"LAST {sorted(last.items())} EVERYWHERE {sorted(everywhere.items())}")


@app.timer(0.2)
async def count():
    print(f"WORKS ON {sorted(tp.partition for tp in app.consumer.assignment() if tp.topic == 'visits')}")
"""
Start = Callable[..., FaustWorker]
KEYS = [f"place-{number}" for number in range(12)]


def visits(numbers: range) -> list[tuple[str, int]]:
    return [(KEYS[number % len(KEYS)], number) for number in numbers]


def finished(log: EmbeddedLog, total: int) -> bool:
    last = {KEYS[number % len(KEYS)]: number for number in range(total)}
    tens = {str(number % 10): number for number in range(total)}
    return (
        table(log, "places-last-changelog") == last
        and table(log, "places-everywhere-changelog") == last
        and table(log, "places-of-tens-changelog") == tens
    )


def works_on(worker: FaustWorker) -> list[int]:
    said = re.findall(r"WORKS ON \[(.*)\]", worker.said)
    return [int(number) for number in said[-1].split(", ") if number] if said else []


def test_killed_and_started_again(tmp_path: Path, log: EmbeddedLog, start: Start) -> None:
    log.create(Topic("visits", 3))
    app = write_app(tmp_path, "places", APP)
    for life in range(3):
        feed(log, "visits", visits(range(life * 500, life * 500 + 500)))
        before = len(list(records(log, "places-last-changelog")))
        worker = start(app)
        until(lambda before=before: len(list(records(log, "places-last-changelog"))) > before + 200)  # type: ignore[misc]
        if life < 2:
            worker.kill()
    until(lambda: finished(log, 1500))
    assert worker.stop() == 0
    # Everything is in the changelogs: a worker that has nothing else has it all.
    last = sorted({KEYS[number % len(KEYS)]: number for number in range(1500)}.items())
    fresh = start(app)
    fresh.wait_for("LAST [")
    assert f"LAST {last} EVERYWHERE {last}" in fresh.said


def test_workers_share_and_take_over(tmp_path: Path, log: EmbeddedLog, start: Start) -> None:
    log.create(Topic("visits", 3))
    app = write_app(tmp_path, "places", APP)
    one, other = start(app), start(app)
    until(lambda: sorted(works_on(one) + works_on(other)) == [0, 1, 2] and works_on(one) and works_on(other))
    feed(log, "visits", visits(range(500)))
    until(lambda: finished(log, 500))
    one.kill()
    until(lambda: works_on(other) == [0, 1, 2])
    feed(log, "visits", visits(range(500, 800)))
    until(lambda: finished(log, 800))
    assert other.stop() == 0
