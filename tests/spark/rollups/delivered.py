"""The rows a sink has of a rollup by hour and site: these two, and the first computed column."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from streamtopo.logs import Log
from streamtopo.records import TopicPartition
from streamtopo.spark.sinks.sql import transaction
from tests.spark.rollups.rolling import HOUR

Rows = set[tuple[int, str, int]]


def in_topic(log: Log, topic: str = "out") -> Rows:
    """Return the last value of each key; all records of a key are in one partition."""
    found: dict[bytes, Rows] = {}
    for number in range(2):
        columns = log.read(TopicPartition(topic, number), 0, 1 << 30).columns
        for key, value in zip(columns.keys, columns.values, strict=True):
            assert key is not None
            row = json.loads(value) if value else None
            assert row is None or json.loads(key) == {"hour": row["hour"], "site": row["site"]}
            found[key] = set() if row is None else {_row(*row.values())}
    return set().union(*found.values())


def in_sql(url: str, name: str) -> Rows:
    with transaction(url) as database:
        rows = [_row(*row) for row in database.execute(f'SELECT * FROM "{name}"')]
        assert [name for name in database.tables() if "staging" in name] == []
    assert len(set(rows)) == len(rows)
    return set(rows)


def _row(hour: object, site: str, computed: int, *_: object) -> tuple[int, str, int]:
    moment = datetime.fromisoformat(str(hour))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000) // HOUR, site, computed
