"""streamtopo reconcile: compare the results of the engine with those of a batch job."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from streamtopo.cli.shared.failures import FAILED
from streamtopo.cli.shared.options import SparkOptions, log_option, spark_options
from streamtopo.cli.shared.tables import counted


@click.command()
@click.argument("app")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@log_option
@spark_options
def reconcile(app: str, names: Sequence[str], log: str, session: SparkOptions) -> None:
    """Compare topics and stores of APP with a batch computation.

    Spark computes what they should contain, and the command shows the keys that differ. Declare the expected contents
    with @expected in the application's module, or in a module "rollups" of its package. The application must have
    processed all of its input. The exit code is 1 if anything differs.

    \b
    Examples:
      streamtopo reconcile apps.wordcount
      streamtopo reconcile apps.wordcount counts --log embedded:data
    """
    from streamtopo.cli.shared.spark_declarations import chosen, spark_for
    from streamtopo.engine.loading import load_topology
    from streamtopo.spark.declarations import Expected

    topology, declared = load_topology(app), chosen(app, names, Expected)
    different = False
    with spark_for("reconcile", app, session, log) as spark:
        from streamtopo.spark.reports.reconciliation import reconcile as reconciled

        for one in declared:
            result = reconciled(spark, topology, one, log)
            different |= result.differences > 0
            found = counted(result.differences, "difference") if result.differences else "no difference"
            click.echo(f"{result.name}: {counted(result.keys, 'key')}, {found}")
            for difference in result.first:
                click.echo(f"  {difference.key!r}: expected {difference.expected!r}, found {difference.found!r}")
            if result.differences > len(result.first):
                click.echo(f"  and {result.differences - len(result.first):,} more")
    if different:
        sys.exit(FAILED)
