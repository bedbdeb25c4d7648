"""The benchmark of Faust's brokers does what it measures."""

from __future__ import annotations

from pathlib import Path

from benchmarks.faust_brokers import run
from tests.integrations.faust.workers import url_of


def test_every_record_is_counted(tmp_path: Path) -> None:
    found = run(url_of(tmp_path), tmp_path / "side", 2000)
    assert found["rows"] == {f"key-{number}": 2 for number in range(1000)}
    assert found["filled"] > 0
    assert found["counted"] > 0
