"""Columns of buckets, the spans of time of a rollup: their numbers and their starts."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from streamtopo.spark.declarations import Every

BUCKET = "_bucket"
"""The column with the number of a bucket, next to columns of rollups."""


def number_of(millis: Column, every: Every) -> Column:
    return F.floor((millis - every.origin) / every.ms).cast("long")


def shown(bucket: Column, every: Every) -> Column:
    """The start of a bucket, a date or a time; it does not depend on the session's time zone."""
    start = bucket * every.ms + every.origin
    if every.whole_days:
        return F.date_add(F.lit("1970-01-01").cast("date"), (start / 86_400_000).cast("int"))
    return F.timestamp_millis(start)


def number_shown(start: Column, every: Every) -> Column:
    """The number of a bucket, computed from its start."""
    millis = F.unix_date(start).cast("long") * 86_400_000 if every.whole_days else F.unix_millis(start)
    return number_of(millis, every)


def among(name: str, buckets: Iterable[int]) -> Column:
    """Whether this column is one of the numbers: given as text, because Spark takes long for a column for each."""
    listed = ", ".join(map(str, buckets))
    return F.expr(f"`{name}` IN ({listed})") if listed else F.lit(False)
