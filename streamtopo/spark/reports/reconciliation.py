"""Reconciliation: Spark computes in batch what the engine computed record by record, and reports each difference."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, StructType, VariantType

from streamtopo.errors import StreamtopoError
from streamtopo.logs.embedded.arrow_log import ArrowLog
from streamtopo.logs.embedded.storage.statements import PartitionExtent
from streamtopo.records import TopicPartition
from streamtopo.spark.declarations import Expected, serdes_of
from streamtopo.spark.topics.typed import CORRUPT, latest, path_of, read_topic
from streamtopo.topology import Topology

SHOWN = 10
CLOSE = 1e-9
"""The relative difference that is accepted between floats."""
Standing = Mapping[TopicPartition, tuple[PartitionExtent, int]]


@dataclass(frozen=True)
class Difference:
    key: Any
    expected: Any
    found: Any


@dataclass(frozen=True)
class Reconciled:
    name: str
    keys: int
    differences: int
    first: list[Difference]


def reconcile(spark: SparkSession, topology: Topology, expected: Expected, log: str) -> Reconciled:
    """Compare the results of one moment, at which the application had processed all of its input."""
    topic = topology.changelog_of(expected.name) if expected.name in topology.stores else expected.name
    standing = _standing(topology, [topic, *expected.inputs], log)
    inputs = [_read(spark, topology, log, one, standing, whole=True) for one in expected.inputs]
    found = latest(_read(spark, topology, log, topic, standing, whole=False))
    wanted = expected.function(*inputs)
    if not {"key", "value"} <= set(wanted.columns):
        raise StreamtopoError(
            f'@expected("{expected.name}") returns the columns {", ".join(wanted.columns)}; it needs key and value'
        )
    return _compared(expected.name, wanted.select("key", "value"), found)


def _compared(name: str, wanted: DataFrame, found: DataFrame) -> Reconciled:
    kinds = {field.name: field.dataType for field in found.schema.fields}
    cast = {part: F.col(part).cast(kind) for part, kind in kinds.items()}
    exact = [
        F.col(part).eqNullSafe(cast[part].cast(wanted.schema[part].dataType))
        for part, kind in kinds.items()
        if wanted.schema[part].dataType != kind
    ]
    here = reduce(Column.__and__, exact, F.lit(True))
    wanted = wanted.select(cast["key"].alias("key"), cast["value"].alias("cast"), "value", here.alias("here"))
    left, right = wanted.alias("w"), found.withColumn("here", F.lit(True)).alias("f")
    both = left.join(right, F.col("w.key").eqNullSafe(F.col("f.key")), "full_outer").select(
        F.coalesce("w.key", "f.key").alias("key"),
        F.col("w.value").alias("expected"),
        F.col("f.value").alias("found"),
        (F.col("w.here").eqNullSafe(F.col("f.here")) & same(F.col("w.cast"), F.col("f.value"), kinds["value"])).alias(
            "same"
        ),
    )
    both = both.cache()
    try:
        keys, differences = both.agg(F.count("*"), F.count_if(~F.col("same"))).collect()[0]
        rows = both.where(~F.col("same")).orderBy("key").limit(SHOWN).collect() if differences else []
    finally:
        both.unpersist()
    return Reconciled(name, keys, differences, [Difference(row.key, row.expected, row.found) for row in rows])


def same(left: Column, right: Column, kind: DataType) -> Column:
    """Whether two values are equal; sums of floats depend on the order of addition, which is different in a batch."""
    if isinstance(kind, StructType):
        fields = [same(left[field.name], right[field.name], field.dataType) for field in kind.fields]
        return reduce(Column.__and__, fields, left.isNull().eqNullSafe(right.isNull()))
    if isinstance(kind, FloatType | DoubleType):
        apart = F.abs(left - right)
        near = (apart < math.inf) & (apart <= CLOSE * F.greatest(F.abs(left), F.abs(right)))
        return left.eqNullSafe(right) | F.coalesce(near, F.lit(False))
    if isinstance(kind, VariantType):
        return F.to_json(left).eqNullSafe(F.to_json(right))
    return left.eqNullSafe(right)


def _standing(topology: Topology, topics: list[str], log: str) -> Standing:
    sources = [source for source in topology.sources if not source.everywhere]  # groups have no positions in these
    read = {topology.topic_of(name) for source in sources for name in source.topics}
    with closing(ArrowLog(path_of(log))) as arrow_log:
        standing = arrow_log.standing(topology.application_id, {*topics, *read})
    behind = sum(extent.end - position for part, (extent, position) in standing.items() if part.topic in read)
    if behind:
        raise StreamtopoError(
            f'"{topology.application_id}" has {behind} records to process yet; let its worker catch up, and run this '
            "again"
        )
    return standing


def _read(
    spark: SparkSession, topology: Topology, log: str, topic: str, standing: Standing, *, whole: bool
) -> DataFrame:
    """The records up to the topic's end at that moment; `whole` refuses a topic whose beginning was deleted."""
    extents = {part.partition: extent for part, (extent, _) in standing.items() if part.topic == topic}
    for number, extent in extents.items():
        if whole and extent.start:
            raise StreamtopoError(
                f"records of {topic}/{number} before offset {extent.start} were deleted, so nothing can be computed "
                "from all of them"
            )
    key, value = serdes_of(topology, topic)
    ends = {str(number): extent.end for number, extent in extents.items()}
    records = read_topic(spark, log, topic, key=key, value=value, options={"endingOffsets": json.dumps(ends)})
    # The engine does not process corrupt input. In its output, a corrupt record is a difference.
    return records.where(F.col(CORRUPT).isNull()) if whole else records
