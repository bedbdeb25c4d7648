"""streamtopo rollup: bring the tables that an application declares up to date, with Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from streamtopo.cli.options import log_option
from streamtopo.cli.tables import counted

if TYPE_CHECKING:
    from streamtopo.spark.rollups import Done


class How(NamedTuple):
    """The options that say how a rollup runs, by their names."""

    since: int | None
    trigger: str
    mode: str | None
    into: str | None
    report: str | None


def _time(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    from streamtopo.spark.asked import timestamp

    try:
        if (text or "").isdigit():  # 20261101 would be a time of 1970
            raise ValueError(text)
        return None if text is None else timestamp(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time; give 2026-11-01 or 2026-11-01T12:00") from None


@click.command()
@click.argument("app")
@click.argument("names", nargs=-1, metavar="[ROLLUP]...")
@log_option
@click.option("--out", metavar="DIR", default="rollups", show_default=True, help="Where the tables are.")
@click.option("--master", metavar="URL", default="local[*]", show_default=True, help="The Spark that computes.")
@click.option(
    "--since", callback=_time, metavar="TIME", help="Leave out older records; a date, or date and time, of UTC."
)
@click.option(
    "--trigger",
    type=click.Choice(["once", "available-now", "continuous"]),
    default="once",
    show_default=True,
    help="All that is new in one commit, in commits of a gigabyte, or until Ctrl-C.",
)
@click.option(
    "--mode",
    type=click.Choice(["append", "update", "complete"]),
    help="Run as a query of Structured Streaming, and emit its rows once their span is over, whenever they change, or "
    "all each time.",
)
@click.option(
    "--into",
    metavar="PLACE",
    help="Also into topic:NAME, sqlite:FILE or postgresql://USER@HOST/DATABASE, each commit once.",
)
@click.option("--report", metavar="FILE", help="Draw the tables into one HTML file, which needs nothing else.")
def rollup(app: str, names: Sequence[str], log: str, out: str, master: str, **options: Any) -> None:
    """Bring the tables that APP declares up to date: all of them, or those that are named.

    Rollups are declared with @rollup in the application's module, or in a module "rollups" inside of it. Each run reads
    only records that are new; where the rollup does not say how to merge, the spans of time in which those lie are
    computed anew. A table is a folder of Parquet files; what its manifest names counts, and a run that is killed leaves
    the table as it was.

    \b
    Examples:
      streamtopo rollup apps.wordcount
      streamtopo rollup apps.wordcount top-words --out tables --since 2026-11-01
      streamtopo rollup apps.wordcount --trigger continuous
      streamtopo rollup apps.sensors --report sensors.html
      streamtopo rollup apps.sensors --into sqlite:sensors.db
    """
    from streamtopo.cli.declared import chosen, spark_for, views_of
    from streamtopo.engine.loading import load_topology
    from streamtopo.spark.declaring import Rollup, resolved

    how = How(**options)
    topology = load_topology(app)
    declared = [resolved(one, topology) for one in chosen(app, names, Rollup)]
    _check(how, [one.name for one in declared])
    views = views_of(app, [one.name for one in declared])
    with spark_for(f"streamtopo rollup {app}", master, log) as spark:
        from streamtopo.spark.queries import Query, queried
        from streamtopo.spark.report import write_report
        from streamtopo.spark.rollups import Run, commits
        from streamtopo.spark.views import refresh

        if how.mode is None:
            news = commits([Run(spark, one, log, out, how.since, into=how.into) for one in declared], how.trigger)
        else:
            news = queried([Query(spark, one, log, out, how.mode, into=how.into) for one in declared], how.trigger)
        for done in news:
            click.echo(_summary(done))
            for one in views:
                if done.rollup in one.of and refresh(spark, one, out):
                    click.echo(f"{one.name}: computed anew from {', '.join(one.of)}")
            if how.report and how.trigger == "continuous":
                write_report(spark, app, [*declared, *views], out, how.report)
        if how.report:
            write_report(spark, app, [*declared, *views], out, how.report)


def _check(how: How, names: Sequence[str]) -> None:
    if how.mode and how.since is not None:
        raise click.UsageError("--since is not for --mode: a query begins where the topic begins")
    if (how.into or "").startswith("topic:") and len(names) > 1:
        raise click.UsageError(
            f"{how.into} takes one rollup, for it has the rows of one table; name one of {', '.join(names)}"
        )


def _summary(done: Done) -> str:
    if not done.ranges:
        return f"{done.rollup}: nothing new"
    ranges = ", ".join(f"{source}: {start}-{end - 1}" for source, (start, end) in sorted(done.ranges.items()))
    corrupt = f", {counted(done.corrupt, 'corrupt record')} left out" if done.corrupt else ""
    return (
        f"{done.rollup}: {counted(done.records, 'new record')} (offsets {ranges}), {counted(done.rows, 'row')} in "
        f"{counted(done.buckets, 'span')} computed{corrupt}; {done.bytes / 1e6:.1f} MB in all, {done.seconds:.1f} s"
    )
