"""Filters of a query: they narrow what is read where Spark hands them on (since 4.1), and change no result."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime

import pyspark
import pytest

from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from tests.spark.conftest import Read

BATCHES, SIZE = 10, 20
HANDED_ON = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 1)
Row = tuple[int, int, int]

FILTERS: list[tuple[str, Callable[[int, int, int], bool], int]] = [
    ("partition = 1", lambda p, o, t: p == 1, 10),
    ("partition IN (0, 7)", lambda p, o, t: p == 0, 20),
    ("partition > 0 AND offset < 15", lambda p, o, t: p > 0 and o < 15, 1),
    ("offset BETWEEN 25 AND 59", lambda p, o, t: 25 <= o <= 59, 4),
    ("offset >= 1000", lambda p, o, t: False, 1),
    ("offset = 40 OR partition = 1", lambda p, o, t: o == 40 or p == 1, 20),
    ("NOT offset = 40", lambda p, o, t: o != 40, 20),
    ("timestamp >= '1970-01-01T00:00:05Z'", lambda p, o, t: t >= 5000, 10),
    ("timestamp > '1970-01-01T00:00:04.9995Z'", lambda p, o, t: t > 4999, 10),
    ("timestamp < '1970-01-01T00:00:01.0005Z'", lambda p, o, t: t <= 1000, 4),
    ("timestamp <= '1970-01-01T00:00:00.999999Z'", lambda p, o, t: t <= 999, 2),
    ("timestamp = '1970-01-01T00:00:03.003Z'", lambda p, o, t: t == 3003, 2),
    ("timestamp > date'1969-12-31' AND partition <=> 0", lambda p, o, t: p == 0, 10),
]


@pytest.fixture
def rows(log: EmbeddedLog) -> list[Row]:
    """Append batches of a second each, to both partitions; return partition, offset and time of their records."""
    chosen, found = random.Random(7), []
    for partition in range(2):
        for batch in range(BATCHES):
            times = sorted(chosen.sample(range(batch * 1000, batch * 1000 + 1000), SIZE))
            times[0], times[3] = batch * 1000, batch * 1000 + 3
            log.append(TopicPartition("t", partition), Columns([None] * SIZE, [b"v"] * SIZE, times))
            found += [(partition, batch * SIZE + place, time) for place, time in enumerate(times)]
    return found


@pytest.mark.parametrize(("text", "keeps", "slices"), FILTERS, ids=[text for text, *_ in FILTERS])
def test_a_filter_narrows_what_is_read(
    rows: list[Row], read: Read, text: str, keeps: Callable[[int, int, int], bool], slices: int
) -> None:
    found = read("partition int, offset long, timestamp timestamp", sliceBytes="1").where(text)
    kept = [(row.partition, row.offset, _millis(row.timestamp)) for row in found.collect()]
    assert sorted(kept) == [row for row in rows if keeps(*row)]
    assert found.rdd.getNumPartitions() == (slices if HANDED_ON else 2 * BATCHES)


def _millis(moment: datetime) -> int:
    return round(moment.astimezone(UTC).timestamp() * 1000)
