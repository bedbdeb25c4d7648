"""streamtopo rollup: update the tables that an application declares, with Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from streamtopo.cli.shared.failures import FAILED, message_of
from streamtopo.cli.shared.options import SparkOptions, log_option, spark_options
from streamtopo.cli.shared.parsing import parsed
from streamtopo.cli.shared.tables import counted
from streamtopo.settings.times import time_of

if TYPE_CHECKING:
    from streamtopo.spark.declarations import Rollup, View
    from streamtopo.spark.rollups.rollups import Done
    from streamtopo.spark.rollups.turns import Failed, Refreshed


class RollupOptions(NamedTuple):
    """The options that control how a rollup runs."""

    since: int | None
    trigger: str
    mode: str | None
    into: str | None
    late: str
    report: str | None
    as_json: bool


@click.command()
@click.argument("app")
@click.argument("names", nargs=-1, metavar="[ROLLUP]...")
@log_option
@click.option("--out", metavar="DIR", default="rollups", show_default=True, help="Directory of the tables.")
@spark_options
@click.option(
    "--since",
    callback=parsed(time_of),
    metavar="TIME",
    help="Ignore older records: a date, or a time such as 2026-01-31T12:00:00Z.",
)
@click.option(
    "--trigger",
    type=click.Choice(["once", "available-now", "continuous"]),
    default="once",
    show_default=True,
    help="Process new records in one commit (once), in commits of a gigabyte (available-now), or until Ctrl-C "
    "(continuous).",
)
@click.option(
    "--mode",
    type=click.Choice(["append", "update", "complete"]),
    help="Run as a query of Structured Streaming that emits rows when their time span is over (append), when they "
    "change (update), or all rows each time (complete).",
)
@click.option(
    "--into",
    metavar="PLACE",
    help="Also write each commit, exactly once, to topic:NAME, sqlite:FILE or postgresql://USER@HOST/DATABASE.",
)
@click.option(
    "--late",
    type=click.Choice(["keep", "refuse"]),
    default="keep",
    show_default=True,
    help="What to do with new records of a span that cannot be computed again, because others of it were deleted: keep "
    "them apart, or fail.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each rollup.")
@click.option("--report", metavar="FILE", help="Draw the tables into a single, self-contained HTML file.")
def rollup(app: str, names: Sequence[str], log: str, out: str, session: SparkOptions, **options: Any) -> None:
    """Update the tables that APP declares, with Spark.

    Update all tables, or only those with the names ROLLUP. Declare rollups with @rollup in the application's
    module, or in a module "rollups" of its package. Each run reads only new records. If a rollup does not say how to
    merge rows, the time spans with new records are computed again. A table is a Delta table, which many engines can
    read. If a run is killed, the table does not change. A rollup that fails does not stop the others; the exit code is
    1 then.

    \b
    Examples:
      streamtopo rollup apps.wordcount
      streamtopo rollup apps.wordcount top-words --out tables --since 2026-11-01
      streamtopo rollup apps.wordcount --trigger continuous
      streamtopo rollup apps.sensors --report sensors.html
      streamtopo rollup apps.sensors --into sqlite:sensors.db
    """
    from streamtopo.cli.shared.spark_declarations import chosen, spark_for, views_of
    from streamtopo.engine.loading import load_topology
    from streamtopo.spark.declarations import Rollup, resolved

    choices = RollupOptions(**options)
    topology = load_topology(app)
    declared = [resolved(one, topology) for one in chosen(app, names, Rollup)]
    _check(choices, [one.name for one in declared])
    views = views_of(app, [one.name for one in declared])
    failures = []
    with spark_for("rollup", app, session, log) as spark:
        from streamtopo.spark.rollups.turns import Failed

        for news in _updated(spark, Tables(app, declared, views), log, out, choices):
            if isinstance(news, Failed):
                failures.append(news.error)
            if choices.as_json:
                click.echo(_json(news, out))
            elif not isinstance(news, Failed):
                click.echo(_summary(news))
            for warning in _warnings(news):
                click.echo(f"warning: {warning}", err=True)
    for error in failures:
        click.echo(message_of(error, click.get_current_context()), err=True)
    if failures:
        sys.exit(FAILED)


class Tables(NamedTuple):
    app: str
    rollups: list[Rollup]
    views: list[View]


def _updated(
    spark: Any, tables: Tables, log: str, out: str, choices: RollupOptions
) -> Iterator[Done | Refreshed | Failed]:
    from streamtopo.spark.reports.report import write_report
    from streamtopo.spark.rollups.queries import Query
    from streamtopo.spark.rollups.rollups import Done, Run
    from streamtopo.spark.rollups.turns import commits, queried, refreshed

    def report() -> None:
        if choices.report:
            write_report(spark, tables.app, [*tables.rollups, *tables.views], out, choices.report)

    if choices.mode is None:
        runs = [
            Run(spark, one, log, out, choices.since, into=choices.into, late=choices.late) for one in tables.rollups
        ]
        turns = commits(runs, choices.trigger)
    else:
        queries = [Query(spark, one, log, out, choices.mode, into=choices.into) for one in tables.rollups]
        turns = queried(queries, choices.trigger)
    for news in turns:
        yield news
        if isinstance(news, Done):
            yield from refreshed(spark, [one for one in tables.views if news.rollup in one.of], out)
        if choices.trigger == "continuous":
            report()
    report()


def _check(choices: RollupOptions, names: Sequence[str]) -> None:
    if choices.mode and choices.since is not None:
        raise click.UsageError("--since cannot be combined with --mode: a query starts where the topic starts")
    if (choices.into or "").startswith("topic:") and len(names) > 1:
        raise click.UsageError(
            f"{choices.into} takes one rollup, because it has the rows of one table; name one of {', '.join(names)}"
        )


def _json(news: Done | Refreshed | Failed, out: str) -> str:
    from streamtopo.spark.rollups.rollups import Done
    from streamtopo.spark.rollups.turns import Failed

    shown: dict[str, Any] = {"name": news.name, "table": str((Path(out) / news.name).absolute())}
    if isinstance(news, Done):
        shown |= {
            "records": news.records,
            "rows": news.rows,
            "spans": news.buckets,
            "corrupt": news.corrupt,
            "late": news.late,
        }
        shown |= {"bytes": news.bytes, "seconds": round(news.seconds, 3)}
        shown["offsets"] = {str(source): span for source, span in sorted(news.ranges.items())}
        shown["deleted"] = {str(source): span for source, span in sorted(news.incomplete.items())}
    return json.dumps(shown | {"error": str(news.error) if isinstance(news, Failed) else None})


def _warnings(news: Done | Refreshed | Failed) -> Iterator[str]:
    from streamtopo.spark.rollups.rollups import Done

    if isinstance(news, Done):
        for source, (first, end) in sorted(news.incomplete.items()):
            yield (
                f"records {first} to {end - 1} of {source} were deleted before {news.rollup} read them; the rows of "
                "spans that may lack them are marked in the column _incomplete"
            )


def _summary(done: Done | Refreshed) -> str:
    from streamtopo.spark.rollups.turns import Refreshed

    if isinstance(done, Refreshed):
        return f"{done.name}: computed again from {', '.join(done.of)}"
    if not done.ranges:
        return f"{done.rollup}: nothing new"
    ranges = ", ".join(f"{source}: {start}-{end - 1}" for source, (start, end) in sorted(done.ranges.items()))
    corrupt = f", {counted(done.corrupt, 'corrupt record')} left out" if done.corrupt else ""
    late = f", {counted(done.late, 'late record')} kept apart" if done.late else ""
    computed = f"{counted(done.rows, 'row')} in {counted(done.buckets, 'span')} computed{corrupt}{late}"
    return (
        f"{done.rollup}: {counted(done.records, 'new record')} (offsets {ranges}), {computed}; "
        f"{done.bytes / 1e6:.1f} MB in all, {done.seconds:.1f} s"
    )
