"""Views: tables that are computed from whole tables of rollups, whenever one of those has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.spark.declarations import View
from streamtopo.spark.delta.columns import columns_of
from streamtopo.spark.delta.files import write_files
from streamtopo.spark.delta.versions import Change
from streamtopo.spark.rollups.earlier import is_earlier, remove_earlier
from streamtopo.spark.rollups.reading import read_rollup
from streamtopo.spark.rollups.states import State
from streamtopo.spark.rollups.tables import Table


def refresh(spark: SparkSession, view: View, out: str) -> bool:
    """Compute the view again; False if nothing has changed, or if a rollup has no table yet."""
    table = Table(Path(out).absolute() / view.name)
    with table.locked():
        old = table.state() or State({"of": list(view.of)})
        if "of" not in old.definition:
            raise StreamtopoError(f'"{table.directory}" is the table of a rollup; give the view another name')
        sources = [Table(Path(out).absolute() / name).state() for name in view.of]
        commits = {source.id: (0, source.commit) for source in sources if source is not None}
        if old.offsets == commits or len(commits) < len(view.of):
            return False
        run = table.begin(old)
        found = view.function(*(read_rollup(spark, out, name) for name in view.of))
        write_files(found.hint("rebalance"), table.directory / run)
        new = replace(old, definition={"of": list(view.of)}, commit=old.commit + 1, offsets=commits)
        change = Change(columns_of(found), table.added(run), old.version.files if old.version else [])
        table.commit(new, run, change)
        if is_earlier(table.directory):
            remove_earlier(table.directory)
        return True
