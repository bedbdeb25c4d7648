"""An application whose log and state, made by streamtopo at commit bf311ac, are kept in older.tar.xz.

`main(FOLDER)`, run with that commit, made them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamtopo import StreamsBuilder, Topology, Windows, Worker

HOUR = 3_600_000


@dataclass
class Total:
    amount: int = 0
    rows: int = 0


def older(*, grace: str | int = 0, rows: Any = Total, order: int = 1) -> Topology:
    builder = StreamsBuilder("older")
    numbers = builder.stream("in", key=str, value=int)
    grouped = numbers.group_by_key()
    windows = Windows.tumbling("1h", grace=grace)
    shown("windowed", grouped.windowed_by(windows).count(name="windowed"))
    shown("closed", grouped.windowed_by(windows, emit="on_close").count(name="closed"))
    add = lambda key, value, row: rows(row.amount + value, row.rows + 1)  # noqa: E731
    shown("totals", grouped.aggregate(rows, add, value=rows, name="totals"))
    for group in [by_value, by_evenness][::order]:
        shown(group.__name__, numbers.group_by(group, key=int).count())
    return builder.build()


def by_value(key: str, value: int) -> int:
    return value


def by_evenness(key: str, value: int) -> int:
    return value % 2


def shown(name: str, table: Any) -> None:
    table.to_stream(lambda key, value: f"{name} {key}", key=str).map_values(str, value=str).to("out")


def main(folder: Path) -> None:
    from streamtopo.logs import Topic
    from streamtopo.logs.embedded import EmbeddedLog
    from streamtopo.records import Columns, TopicPartition

    log = EmbeddedLog(folder / "log")
    for topic in ("in", "out"):
        log.create(Topic(topic, 1))
    numbers = [number.to_bytes(8) for number in (1, 2, 3, 3)]
    log.append(TopicPartition("in", 0), Columns([b"a"] * 4, list(numbers), [10 * HOUR + n for n in range(4)]))
    worker = Worker(older(), log, state_dir=str(folder / "state"))
    deadline = time.monotonic() + 30
    while worker.run_once(0.001) or worker._pace.undurable or not worker.tasks or worker.metrics().lag:
        assert time.monotonic() < deadline
    worker.close()
    log.close()
