"""Tables of earlier versions, before rollups had Delta tables: Parquet files that `_manifest.json` lists."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streamtopo.spark.rollups.states import State, state_of

_MANIFEST = "_manifest.json"
_SAME = ("definition", "log", "topics", "offsets", "latest", "batch", "id")


def is_earlier(directory: Path) -> bool:
    return (directory / _MANIFEST).exists()


def earlier_state(directory: Path) -> State | None:
    """The state before the last commit, which is to be repeated; None if the table has no columns yet."""
    raw = _read(directory)
    if not raw["columns"]:
        return None
    firsts = {number: bucket["first"] for number, bucket in raw["buckets"].items()}
    changed = [int(number) for number in raw["changed"]]
    same = {name: raw[name] for name in _SAME}
    return state_of({**same, "commit": raw["commit"] - 1, "firsts": firsts, "changed": changed})


def earlier_rows(spark: SparkSession, directory: Path) -> DataFrame:
    raw = _read(directory)
    files = [str(directory / file) for bucket in raw["buckets"].values() for file in bucket["files"]]
    # Otherwise Spark reads `run=…` and `_bucket=…` as columns.
    reader = spark.read.schema(raw["columns"]).option("recursiveFileLookup", "true")
    return reader.parquet(*files) if files else spark.createDataFrame([], raw["columns"])


def remove_earlier(directory: Path) -> None:
    for folder in directory.glob("run=*"):
        shutil.rmtree(folder)
    (directory / _MANIFEST).unlink()


def _read(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / _MANIFEST).read_text())
    return found
