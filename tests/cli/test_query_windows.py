"""streamtopo query: windows and their times, in lines, in a table and as bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamtopo import Worker
from streamtopo.logs import Log, Topic
from streamtopo.records import Columns, TopicPartition
from tests.cli.conftest import Run, Start, objects, on_terminal

WINDOWS = """
from streamtopo import StreamsBuilder, Windows
builder = StreamsBuilder("windows")
stream = builder.stream("in", key=str, value=str).group_by_key()
stream.windowed_by(Windows.tumbling("1m", grace="1h")).count(name="minutes")
builder.stream("in", key=str, value=str).filter(lambda key, value: False).group_by_key().count(name="nothing")
"""
MINUTE = 1_700_000_000_000 // 60_000 * 60_000


@pytest.fixture
def windows(folder: Path, log: Log) -> None:
    (folder / "windows.py").write_text(WINDOWS)
    log.create(Topic("in", 1))
    for key, minute in (("a", 0), ("a", 1), ("evil\x1b[2J", 1), ("鍵\n", 1)):
        place = TopicPartition("in", 0)
        log.append(place, Columns([key.encode()], [b"x"], [MINUTE + 60_000 * minute], None))
    worker = Worker("windows", log, max_ahead="none")
    while worker.run_once():
        pass
    worker.close()


@pytest.mark.usefixtures("windows")
def test_windows_are_shown_and_asked_for_by_time(run: Run) -> None:
    first = "a\t2023-11-14T22:13:00Z\t2023-11-14T22:14:00Z\t1\n"
    second = "a\t2023-11-14T22:14:00Z\t2023-11-14T22:15:00Z\t1\n"
    assert run("query", "windows", "minutes", "a").stdout == first + second
    for time in ("2023-11-14T22:14:00Z", "2023-11-14T23:14+01:00", str(MINUTE + 60_000)):
        assert run("query", "windows", "minutes", "a", "--from", time).stdout == second
    assert objects(run("query", "windows", "minutes", "a", "--max", "1", "--json")) == [
        {"key": "a", "start": MINUTE, "end": MINUTE + 60_000, "value": 1}
    ]
    wrong = run("query", "windows", "minutes", "a", "--from", "noon")
    assert (wrong.exit_code, wrong.stderr.startswith("Error: 'noon' is not a time; give one in UTC")) == (1, True)


@pytest.mark.usefixtures("windows")
def test_a_query_without_rows_says_so(run: Run) -> None:
    early = run("query", "windows", "minutes", "--to", "2020-01-01")
    assert (early.exit_code, early.stdout, early.stderr) == (0, "", 'store "minutes" has no rows in this range\n')
    empty = run("query", "windows", "nothing", "--json")
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", 'store "nothing" is empty\n')
    assert not run("query", "windows", "nothing", "--max", "0").stderr


@pytest.mark.usefixtures("windows")
def test_rows_are_a_table_on_a_terminal(start: Start) -> None:
    assert on_terminal(start, "query", "windows", "minutes") == [
        "key          start                 end                   value",
        "a            2023-11-14T22:13:00Z  2023-11-14T22:14:00Z  1",
        "a            2023-11-14T22:14:00Z  2023-11-14T22:15:00Z  1",
        "evil\\x1b[2J  2023-11-14T22:14:00Z  2023-11-14T22:15:00Z  1",
        "鍵\\n         2023-11-14T22:14:00Z  2023-11-14T22:15:00Z  1",
    ]


@pytest.mark.usefixtures("windows")
def test_a_pipe_gets_keys_as_they_are(run: Run) -> None:
    evil = "evil\x1b[2J\t2023-11-14T22:14:00Z\t2023-11-14T22:15:00Z\t1\n"
    assert run("query", "windows", "minutes", "evil\x1b[2J").stdout == evil
