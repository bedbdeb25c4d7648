"""streamtopo reconcile: is what the engine computed what a batch computes?"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from streamtopo.cli.failures import FAILED
from streamtopo.cli.options import log_option
from streamtopo.cli.tables import counted


@click.command()
@click.argument("app")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@log_option
@click.option("--master", metavar="URL", default="local[*]", show_default=True, help="The Spark that computes.")
def reconcile(app: str, names: Sequence[str], log: str, master: str) -> None:
    """Compute in batch, with Spark, what topics and stores of APP should hold, and show every key that differs.

    What they should hold is declared with @expected in the application's module, or in a module "rollups" inside of it.
    The application's worker must have processed all of its input. Ends with 1 if anything differs.

    \b
    Examples:
      streamtopo reconcile apps.wordcount
      streamtopo reconcile apps.wordcount counts --log embedded:elsewhere
    """
    from streamtopo.cli.declared import chosen, spark_for
    from streamtopo.engine.loading import load_topology
    from streamtopo.spark.declaring import Expected

    topology, declared = load_topology(app), chosen(app, names, Expected)
    different = False
    with spark_for(f"streamtopo reconcile {app}", master, log) as spark:
        from streamtopo.spark.reconciling import reconcile as reconciled

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
