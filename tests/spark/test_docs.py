"""README.md and docs/guides/spark.md: their examples run, one after the other, on the topics they name."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from struct import pack

import pytest
from pyspark.sql import SparkSession

from apps.wordcount import topology
from apps.wordcount.rollups import words_by_day
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark.declarations import resolved
from streamtopo.spark.rollups.rollups import Run
from tests.docs.pages import blocks
from tests.docs.terminals import ROOT

TEXT = (ROOT / "docs" / "guides" / "spark.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_examples_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = EmbeddedLog(".streamtopo")
    topics = {
        "sentences": [b"to be", b"or not to be", b"ah"],
        "readings": [b'{"site":"north","celsius":21.5}', b'{"site":"north","celsius":18.5}', b"no JSON"],
        "shouted": [],
    }
    now = round(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp() * 1000)
    for name, values in topics.items():
        log.create(Topic(name, 1))
        log.append(TopicPartition(name, 0), Columns([None] * len(values), list(values), [now] * len(values)))
    for block in BLOCKS:
        if "read_rollup" in block:  # `streamtopo rollup` has been run by then
            (done,) = Run(spark, resolved(words_by_day, topology), "embedded:.streamtopo", "rollups").commits()
            assert done.rows == 5
        block = re.sub(
            r'"(.streamtopo|checkpoints/.*)"', rf'"{tmp_path}/\1"', block
        )  # Spark was started in another directory
        known = {"__name__": __name__}  # dataclasses look for their module
        exec(compile(block, "docs/guides/spark.md", "exec"), known)
    assert len(BLOCKS) == 8
    log.close()


def test_the_readmes_example_runs(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    totals = [pack(">d", total) for total in (20, 42)]
    fill(tmp_path, "customer-totals", Columns([b"ann", b"ann"], list(totals), [1000, 2000]))
    (code,) = (block.code for block in blocks(ROOT / "README.md") if block.mark == "spark")
    exec(code.replace(".streamtopo", f"{tmp_path}/.streamtopo"), {"__name__": __name__})
    assert "|ann|      42.0|" in capsys.readouterr().out


def test_the_tutorials_example_runs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = blocks(ROOT / "docs/start/tutorial.md")
    app, *_ = (block.code for block in page if block.title == "visits.py")
    (tmp_path / "visits.py").write_text(app)
    monkeypatch.syspath_prepend(tmp_path)
    (lines,) = (block.code.encode().splitlines() for block in page if block.title == "visits.jsonl")
    fill(tmp_path, "visits", Columns([None] * len(lines), list(lines), [1000] * len(lines)))
    (code,) = (block.code for block in page if block.mark == "spark")
    exec(code.replace(".streamtopo", f"{tmp_path}/.streamtopo"), {"__name__": __name__})
    assert "| ann|    3|" in capsys.readouterr().out


def fill(folder: Path, topic: str, records: Columns) -> None:
    log = EmbeddedLog(folder / ".streamtopo")
    log.create(Topic(topic, 1))
    log.append(TopicPartition(topic, 0), records)
    log.close()
