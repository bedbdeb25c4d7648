"""Views: tables that are computed from whole tables of rollups, whenever one of those has changed."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.spark.declarations import View
from streamtopo.spark.rollups.outputs import columns_of, read_rollup
from streamtopo.spark.rollups.tables import FOLDER, Bucket, Manifest, Table


def refresh(spark: SparkSession, view: View, out: str) -> bool:
    """Compute the view again; False if nothing has changed, or if a rollup has no table yet."""
    table = Table(Path(out).absolute() / view.name)
    with table.locked():
        old = table.manifest() or Manifest({"of": list(view.of)}, "", {})
        if "of" not in old.definition:
            raise StreamtopoError(f'"{table.directory}" is the table of a rollup; give the view another name')
        sources = [Table(Path(out).absolute() / name).manifest() for name in view.of]
        commits = {source.id: (0, source.commit) for source in sources if source is not None and source.columns}
        if old.offsets == commits or len(commits) < len(view.of):
            return False
        table.sweep(old)
        found = view.function(*(read_rollup(spark, out, name) for name in view.of))
        run = f"run={old.commit + 1}-{uuid.uuid4().hex[:8]}"
        found.coalesce(1).write.parquet(str(table.directory / run / f"{FOLDER}=0"))
        new = replace(old, definition={"of": list(view.of)}, commit=old.commit + 1, columns=columns_of(found))
        table.write(replace(new, offsets=commits, buckets={"0": Bucket(table.written(run)["0"], {})}))
        return True
