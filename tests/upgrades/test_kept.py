"""A log and state of an old commit: every operator continues where that commit stopped."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.upgrades.kept import records, topology
from tests.upgrades.versions import Home


@pytest.mark.parametrize("wiped", [False, True], ids=["the stores on disk", "stores rebuilt from the changelogs"])
def test_the_output_is_that_of_the_old_commit(tmp_path: Path, wiped: bool, caplog: pytest.LogCaptureFixture) -> None:
    with tarfile.open(Path(__file__).with_name("kept.tar.xz")) as kept:
        kept.extractall(tmp_path, filter="data")
    home = Home(tmp_path, ())
    for topic, key, value, time in records(1):
        home.put(topic, (key, value, time))
    expected = [tuple(row) for row in json.loads((tmp_path / "expected.json").read_text())]
    assert home.run(topology(), wiped=wiped) == expected
    assert len(expected) > 1000
    assert "rebuilt from" not in caplog.text
    home.log.close()
