"""Drivers killed in each phase and at random moments: table and sink have the result of one batch, once."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import TopicPartition
from streamtopo.spark import read_rollup
from streamtopo.spark.rollups.rollups import Run
from tests.long import long
from tests.spark import postgres
from tests.spark.rollups.delivered import Rows, in_sql, in_topic
from tests.spark.rollups.rolling import HOUR, answer, feed, merged, rolled, rolling_on

EVERYWHERE = ["while files", "before table", "after table", "after commit"]
PHASES = {
    "nowhere": EVERYWHERE,
    "topic": ["while staging", *EVERYWHERE],
    "sqlite": ["after rows", *EVERYWHERE],
    "postgresql": ["after rows", *EVERYWHERE],
}
SHORT = ("sqlite", "after rows")


@dataclass
class Place:
    spark: SparkSession
    log: EmbeddedLog
    into: str | None

    @property
    def url(self) -> str:
        return f"embedded:{self.log.path}"

    @property
    def out(self) -> Path:
        return self.log.path / "out"

    def repeat(self) -> bool:
        """Run again, and return whether there was something new."""
        (done,) = Run(self.spark, merged, self.url, str(self.out), into=self.into).commits()
        return bool(done.ranges)

    def check(self) -> None:
        """Compare table and sink with the records, counted in plain Python."""
        expected = {(hour, site, n) for (hour, site), n in answer(self.log).items()}
        rows = read_rollup(self.spark, str(self.out), "merged").selectExpr("unix_millis(hour) AS ms", "site", "n")
        assert sorted((row.ms // HOUR, row.site, row.n) for row in rows.collect()) == sorted(expected)
        assert self.rows() in (None, expected)

    def rows(self) -> Rows | None:
        if self.into is None:
            return None
        return in_topic(self.log) if self.into == "topic:out" else in_sql(self.into, "merged")

    def records(self) -> int:
        """Return how many records were ever written to the sink's topic."""
        return sum(self.log.end(TopicPartition("out", number)) for number in range(2))


@pytest.fixture
def place(request: pytest.FixtureRequest, spark: SparkSession, log: EmbeddedLog) -> Iterator[Place]:
    log.create(Topic("out", 2))
    match request.param:
        case "postgresql":
            with postgres.running() as url:
                yield Place(spark, log, url)
        case sink:
            into = {"nowhere": None, "topic": "topic:out", "sqlite": f"sqlite:{log.path}/rows.db"}
            yield Place(spark, log, into[sink])


@pytest.mark.parametrize(
    ("place", "phase"),
    [
        pytest.param(sink, phase, marks=[] if (sink, phase) == SHORT else long)
        for sink, phases in PHASES.items()
        for phase in phases
    ],
    indirect=["place"],
)
def test_a_killed_run_is_repeated(place: Place, phase: str) -> None:
    feed(place.log, 0, (1, "a 5"), (1, "b 5"), (2, "b 5"))
    place.repeat()
    feed(place.log, 1, (1, "a 5"), (3, "c 5"))
    assert rolled(place.url, place.out, phase, *filter(None, [place.into]))
    assert place.repeat() == (phase in ("while files", "before table"))
    place.check()
    assert place.records() == (3 + 3 if place.into == "topic:out" else 0)  # the spans with new records
    table = place.out / "merged"
    assert len(list(table.glob("*-*"))) == len(list(table.glob("*-*/*.parquet"))) == 2  # leftovers are gone


@pytest.mark.parametrize(
    ("place", "kills"),
    [("sqlite", 1), *(pytest.param(sink, 30, marks=long) for sink in PHASES)],
    indirect=["place"],
)
def test_kills_among_the_commits_of_a_continuous_run(place: Place, kills: int) -> None:
    """Records arrive all the time, late ones too; each process is killed after its first commit."""
    dice = random.Random(os.environ.get("STREAMTOPO_SEED", 1))

    def fed() -> None:
        rows = [(dice.randrange(9), f"{dice.choice('abc')} 1") for _ in range(dice.randrange(1, 50))]
        feed(place.log, dice.randrange(2), *rows)

    for _ in range(kills):
        fed()
        with rolling_on(place.url, place.out, *filter(None, [place.into])) as commits:
            next(commits)
            killed_at = time.monotonic() + dice.uniform(0, 4)
            while time.monotonic() < killed_at:
                fed()
                time.sleep(dice.uniform(0, 0.2))
    place.repeat()
    place.check()
