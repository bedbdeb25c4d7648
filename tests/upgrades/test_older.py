"""A log and state of an older streamtopo, with shorter fingerprints and stamps (made by `older.py`)."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from streamtopo.errors import FingerprintError
from streamtopo.records import Columns, TopicPartition
from tests.upgrades.older import HOUR, Total, older
from tests.upgrades.versions import Home

NOTE = "older/fingerprint"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with tarfile.open(Path(__file__).with_name("older.tar.xz")) as kept:
        kept.extractall(tmp_path, filter="data")
    home = Home(tmp_path, ())
    yield home
    home.log.close()


def put(home: Home, *numbers: int, hour: int = 10) -> None:
    rows = [number.to_bytes(8) for number in numbers]
    times = [hour * HOUR + 10 + place for place in range(len(rows))]
    home.log.append(TopicPartition("in", 0), Columns([b"a"] * len(rows), [*rows], times))


def test_an_old_state_continues_and_gets_new_fingerprints(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert all(isinstance(line, str) for line in orjson.loads(home.log.note(NOTE) or "").values())
    put(home, 3)
    assert sorted(home.run(older())) == [
        ("by_evenness 1", "4"),
        ("by_value 3", "3"),
        ("totals a", "Total(amount=12, rows=5)"),
        (f"windowed Windowed(key='a', start={10 * HOUR}, end={11 * HOUR})", "5"),
    ]
    assert "new since" not in caplog.text
    rebuilt = sorted(line.split('"')[1] for line in caplog.messages if "is rebuilt from its changelog" in line)
    assert rebuilt == ["closed", "windowed"]
    assert caplog.text.count("its rows are stored as an older streamtopo did") == 2
    caplog.clear()
    put(home, 1, hour=12)
    closed = (f"closed Windowed(key='a', start={10 * HOUR}, end={11 * HOUR})", "5")
    assert closed in home.run(older())
    assert "is rebuilt from its changelog" not in caplog.text
    with pytest.raises(FingerprintError, match="generated names depend on the order"):
        home.run(older(order=-1))


def test_an_edit_before_the_upgrade_is_found_by_the_stamp(home: Home) -> None:
    put(home, 3)
    assert (f"windowed Windowed(key='a', start={10 * HOUR}, end={11 * HOUR})", "5") in home.run(older(grace="1d"))


def test_a_change_that_the_old_fingerprint_shows_is_refused(home: Home) -> None:
    @dataclass
    class Other:
        amount: int = 0
        rows: int = 0

    refused = r"store totals: .*Total, 1 partitions -> .*Other, 1 partitions; older versions gave ready aggregators"
    with pytest.raises(FingerprintError, match=refused):
        home.run(older(rows=Other))
    assert Total.__name__ in str(home.log.note(NOTE))
