"""Merges results of old and new records, and checks that the merged result is that of all records together."""

from __future__ import annotations

from math import isclose
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streamtopo.errors import StreamtopoError
from streamtopo.spark.declarations import Rollup

_SOME = 1000
"""How many records are computed in two halves for the check."""
_CLOSE = 1e-9
"""The accepted relative difference: sums of floats depend on the order."""


def merged(rollup: Rollup, results: DataFrame) -> DataFrame:
    """One row for each span and key."""
    merges = {"sum": F.sum, "min": F.min, "max": F.max}
    computed = [merges[how](name).cast(results.schema[name].dataType).alias(name) for name, how in rollup.merge.items()]
    return results.groupBy(rollup.bucket, *rollup.keys).agg(*computed).select(*results.columns)


def check_merges(rollup: Rollup, records: DataFrame, *tables: DataFrame) -> None:
    """Raise an error if the merged results of two halves differ from the result of all these records."""
    some = records.limit(_SOME).localCheckpoint()
    half = F.xxhash64("partition", "offset") % 2 == 0
    halves = [rollup.function(some.where(part), *tables) for part in (half, ~half)]
    found = _rows(rollup, merged(rollup, halves[0].unionByName(halves[1])))
    for place, expected in _rows(rollup, rollup.function(some, *tables)).items():
        for name, right, other in zip(rollup.merge, expected, found.get(place, [None] * len(expected)), strict=True):
            if not _alike(right, other):
                raise StreamtopoError(
                    f'rollup "{rollup.name}" cannot be merged: of two halves of the same records merge='
                    f"{dict(rollup.merge)} makes {name}={other!r} for {', '.join(place)}, and the function makes "
                    f"{right!r} of all of them; leave merge= out, and the spans with new records are computed again"
                )


def _rows(rollup: Rollup, result: DataFrame) -> dict[tuple[str, ...], list[Any]]:
    names = rollup.bucket, *rollup.keys
    return {
        tuple(f"{name}={row[name]}" for name in names): [row[name] for name in rollup.merge] for row in result.collect()
    }


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE) or (one != one and other != other)
    return bool(one == other)
