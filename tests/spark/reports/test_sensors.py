"""The rollups of apps.sensors: each table equals what plain Python computes from the records of the topics."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from apps.sensors import topology
from apps.sensors.sample import Entry, day
from streamtopo.cli import main
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from streamtopo.serdes import serde_of
from streamtopo.spark import read_rollup
from tests.spark.working import work
from tests.web.browser import CHROMIUM, Page

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
START = 20_000 * DAY - 60_000
"""One minute before midnight."""
TOPICS = ("averages", "sessions", "alerts", "broken", "late")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedLog:
    monkeypatch.chdir(tmp_path)
    log = EmbeddedLog()
    for name in ("devices", "maintenance", "readings", *(f"sensor-{one}" for one in TOPICS)):
        log.create(Topic(name, 2))
    return log


def feed(log: EmbeddedLog, entries: Iterator[Entry], count: int) -> None:
    types = {source.topics[0]: (source.key, source.value) for source in topology.sources if source.topics}
    columns: dict[TopicPartition, Columns] = {}
    for topic, key, value in islice(entries, count):
        key_bytes, value_bytes = types[topic][0].encode_column([key])[0], types[topic][1].encode_column([value])[0]
        keys, values, times, _ = columns.setdefault(
            TopicPartition(topic, partition_of(key_bytes, 2)), Columns([], [], [])
        )
        keys.append(key_bytes)
        values.append(value_bytes)
        times.append(START)
    for target, portion in columns.items():
        log.append(target, portion)


def records(log: EmbeddedLog, topic: str) -> list[Any]:
    parts = [TopicPartition(topic, number) for number in range(2)]
    return [json.loads(value or b"") for part in parts for value in log.read(part, 0, 1 << 30).columns.values]


def table(spark: SparkSession, name: str, keys: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return the table by its first columns, with spans of time as numbers."""
    found = read_rollup(spark, "rollups", name)
    unit = found.columns[0]
    number = f"unix_date({unit})" if unit == "day" else f"unix_millis({unit}) div {HOUR}"
    rows = found.selectExpr(f"{number} AS {unit}", *(f"`{name}`" for name in found.columns[1:])).collect()
    assert len({tuple(row)[:keys] for row in rows}) == len(rows)
    return {tuple(row)[:keys]: tuple(row)[keys:] for row in rows}


def test_each_table_equals_plain_python(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    entries = day(START)
    for count in (12_000, 8_000):  # the second run adds to spans of the first one
        feed(log, entries, count)
        work(log, topology)
        result = CliRunner().invoke(main, ["rollup", "apps.sensors", "--report", "report.html"])
        assert result.exit_code == 0, result.output
        sound = [one for one in records(log, "readings") if one["celsius"] is not None]
        check_percentiles(table(spark, "site-percentiles", 2), sound)
        check_days(spark, sound)
        check_alerts(table(spark, "alerts-in-sessions", 3), records(log, "sensor-alerts"), log)
    if CHROMIUM is None:
        pytest.skip("there is no Chromium to look at the report; apt-get install chromium")
    check_report(tmp_path)


def check_percentiles(found: dict[tuple[Any, ...], tuple[Any, ...]], sound: list[Any]) -> None:
    by_site = defaultdict(list)
    for one in sound:
        by_site[one["at"] // HOUR, one["sensor"].partition("-")[0]].append(one["celsius"])
    assert {key[0] for key in by_site} == {START // HOUR, START // HOUR + 1}
    assert {key: row[0] for key, row in found.items()} == {key: len(all_) for key, all_ in by_site.items()}
    for key, all_ in by_site.items():
        for cut, given in zip((0.5, 0.9, 0.99), found[key][1:], strict=True):
            place = cut * (len(all_) - 1)
            low, high = sorted(all_)[int(place)], sorted(all_)[min(int(place) + 1, len(all_) - 1)]
            assert given == pytest.approx(low + (high - low) * (place - int(place)), abs=0.0051)


def check_days(spark: SparkSession, sound: list[Any]) -> None:
    minutes, devices = defaultdict(set), defaultdict(set)
    for one in sound:
        minutes[one["at"] // DAY, one["sensor"]].add(one["at"] // MINUTE)
        devices[one["at"] // DAY, one["sensor"].partition("-")[0]].add(one["sensor"])
    wanted = {key: (len(all_), round(len(all_) / 1440, 4)) for key, all_ in minutes.items()}
    assert table(spark, "availability", 2) == wanted
    assert table(spark, "active-devices", 2) == {key: (len(all_),) for key, all_ in devices.items()}


def check_alerts(found: dict[tuple[Any, ...], tuple[Any, ...]], alerts: list[Any], log: EmbeddedLog) -> None:
    decode, spans = serde_of(str, key=True).decode_column, defaultdict(list)
    for number in range(2):
        columns = log.read(TopicPartition("sensor-sessions", number), 0, 1 << 30).columns
        for key, value in zip(decode(columns.keys), columns.values, strict=True):
            span = json.loads(value or b"")
            spans[key].append((span["start"], span["end"]))
    wanted = {}
    for one in alerts:
        day, at = one["at"] // DAY, one["at"]
        inside = [span for span in spans[one["sensor"]] if span[0] <= at <= span[1] and span[1] // DAY == day]
        around = ((at - inside[0][0]) / 1000, (inside[0][1] - at) / 1000) if inside else (None, None)
        wanted[day, one["sensor"], at] = (one["site"], one["celsius"], *around)
    assert found == wanted
    assert any(row[-1] is not None for row in found.values())


SEEN = """(() => {
    const sections = [...document.querySelectorAll("section")];
    const outside = [...document.querySelectorAll("svg")].flatMap((svg) => {
        const room = svg.getBoundingClientRect();
        return [...svg.querySelectorAll("*")].filter((part) => {
            const box = part.getBoundingClientRect();
            return box.left < room.left - 1 || box.right > room.right + 1 || box.bottom > room.bottom + 1;
        }).map((part) => part.outerHTML);
    });
    return {
        charts: Object.fromEntries(sections.map((one) => [one.id, one.querySelectorAll("svg").length])),
        rows: Object.fromEntries(sections.map((one) => [one.id, one.querySelectorAll("tbody tr").length])),
        legend: [...document.querySelectorAll("figure:last-of-type li")].slice(0, 4).map((one) => one.textContent),
        asked: performance.getEntriesByType("resource").length,
        outside,
    };
})()"""


def check_report(folder: Path) -> None:
    page = Page(folder / "browser", f"file://{folder}/report.html")
    try:
        seen = page.run(SEEN)
    finally:
        page.close()
    names = ["site-percentiles", "availability", "active-devices", "alerts-in-sessions"]
    assert (list(seen["charts"]), seen["asked"], seen["outside"]) == (names, 0, [])
    assert all(seen["charts"].values())
    assert (seen["rows"]["site-percentiles"], seen["rows"]["availability"]) == (8, 20)
    assert seen["legend"] == ["harbour", "hill", "mill", "station"]
