"""Several rollups in turn: one that fails does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamtopo.errors import StreamtopoError
from streamtopo.spark.declarations import View
from streamtopo.spark.rollups.queries import Query
from streamtopo.spark.rollups.rollups import Done, Run
from streamtopo.spark.rollups.views import refresh
from streamtopo.spark.session import explained

PAUSE = 1.0
"""Seconds between two checks for new records."""
POLL = 1
"""Seconds between two checks of a query's progress."""


@dataclass(frozen=True)
class Failed:
    name: str
    error: StreamtopoError


@dataclass(frozen=True)
class Refreshed:
    """A view that was computed again."""

    name: str
    of: tuple[str, ...]


News = Generator[Done | Failed, None, None]


def commits(runs: Sequence[Run], trigger: str) -> News:
    """Run once, or repeatedly until one fails; then only runs that found new records are reported."""
    failed = False
    while not failed:
        for run in runs:
            try:
                with told(f'rollup "{run.name}"'):
                    for done in run.commits(several=trigger != "once"):
                        if done.ranges or trigger != "continuous":
                            yield done
            except StreamtopoError as error:
                failed = True
                yield Failed(run.name, error)
        if trigger != "continuous":
            return
        time.sleep(PAUSE)


def queried(queries: Sequence[Query], trigger: str) -> News:
    """Yield what each batch did while the queries are running: until they end, or one fails that would not end."""
    failed, running = False, dict[Query, StreamingQuery]()
    with ExitStack() as stack:
        try:
            for query in queries:
                try:
                    with told(f'rollup "{query.name}"'):
                        stack.enter_context(query.output.table.locked())
                        running[query] = query.start(trigger)
                except StreamtopoError as error:
                    failed = True
                    yield Failed(query.name, error)
            while running and not (failed and trigger == "continuous"):
                for query, one in list(running.items()):
                    try:
                        with told(f'rollup "{query.name}"'):
                            ended = one.awaitTermination(POLL)
                            yield from query.news(one)
                    except StreamtopoError as error:
                        failed = ended = True
                        yield Failed(query.name, error)
                    if ended:
                        running.pop(query).stop()
        finally:
            for one in running.values():
                one.stop()


def refreshed(spark: SparkSession, views: Sequence[View], out: str) -> Iterator[Refreshed | Failed]:
    """Compute those views again of which a table has changed."""
    for view in views:
        try:
            with told(f'view "{view.name}"'):
                if refresh(spark, view, out):
                    yield Refreshed(view.name, view.of)
        except StreamtopoError as error:
            yield Failed(view.name, error)


@contextmanager
def told(what: str) -> Iterator[None]:
    """Every failure, also of the application's own functions, as an error that says what failed."""
    try:
        with explained(what):
            yield
    except StreamtopoError:
        raise
    except Exception as error:
        raise StreamtopoError(f"{what} failed: {error!r}") from error
