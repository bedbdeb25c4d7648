"""Columns of single values: texts, numbers, times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    TimestampType,
)

Fill = Callable[[list[Any]], Any]
"""Makes an Arrow array of a list; raises where it cannot."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999, in microseconds: a column can have other times, but Python cannot read them from it."""


class Unheld(Exception):
    """A column of Spark cannot hold a value, or it is not plain that it can."""


class Scalar(NamedTuple):
    spark: DataType
    of_values: Fill
    of_json: Fill | None = None
    """None if the converter of the serde is needed."""


def scalar_of(kind: Any) -> Scalar | None:
    try:
        return _SCALARS.get(kind)
    except TypeError:  # an unhashable Literal
        return None


def all_are(kind: Any, values: list[Any]) -> None:
    for found in set(map(type, values)):
        if not issubclass(found, kind):
            raise Unheld(f"{found.__name__} in a column of {kind.__name__}")


def _exactly(kind: type, arrow: Any) -> Fill:
    def fill(raws: list[Any]) -> Any:
        if set(map(type, raws)) <= {kind}:
            return pa.array(raws, arrow)
        raise Unheld(f"not only {kind.__name__}")

    return fill


def _any(kind: type, arrow: Any, convert: Callable[[Any], Any] | None = None) -> Fill:
    """Also for values of a subclass."""

    def fill(values: list[Any]) -> Any:
        all_are(kind, values)
        return pa.array(values if convert is None else list(map(convert, values)), arrow)

    return fill


def _numbers(raws: list[Any]) -> Any:
    """As the serde reads them: an int becomes the nearest float."""
    kinds = set(map(type, raws))
    if kinds <= {float, int}:
        return pa.array(list(map(float, raws)) if int in kinds else raws, pa.float64())
    raise Unheld("not only numbers")


def _floats(values: list[Any]) -> Any:
    kinds = set(map(type, values))
    if int in kinds and any(float(one) != one for one in values if type(one) is int):
        raise Unheld("an int that is not exact as a float")
    return _numbers(values)


def _moments(values: list[Any]) -> Any:
    """Times without a zone are in UTC."""
    all_are(datetime, values)
    return _timestamps([((one if one.tzinfo else one.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND for one in values])


def _timestamps(micros: list[int]) -> Any:
    if micros and not _FIRST <= min(micros) <= max(micros) <= _LAST:
        raise Unheld("a time outside of the years 1 to 9999")
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


# Arrow refuses decimals with more digits than there is room for, and NaN.
_SCALARS: dict[Any, Scalar] = {
    str: Scalar(StringType(), _any(str, pa.string()), _exactly(str, pa.string())),
    int: Scalar(LongType(), _any(int, pa.int64(), int), _exactly(int, pa.int64())),
    float: Scalar(DoubleType(), _floats, _numbers),
    bool: Scalar(BooleanType(), _any(bool, pa.bool_()), _exactly(bool, pa.bool_())),
    bytes: Scalar(BinaryType(), _any(bytes, pa.binary())),
    Decimal: Scalar(DecimalType(38, 18), _any(Decimal, pa.decimal128(38, 18))),
    datetime: Scalar(TimestampType(), _moments),
    date: Scalar(DateType(), _exactly(date, pa.date32())),
    time: Scalar(StringType(), _any(time, pa.string(), time.isoformat)),
    UUID: Scalar(StringType(), _any(UUID, pa.string(), str)),
}
MILLISECONDS = Scalar(TimestampType(), lambda values: _timestamps([one * 1000 for one in values]))
