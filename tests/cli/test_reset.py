"""streamtopo reset: what it shows, moves and deletes, and when it refuses."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from streamtopo import Worker
from streamtopo.engine.compatibility.fingerprint import note_of, unfinished
from streamtopo.engine.loading import load_topology
from streamtopo.errors import FingerprintError
from streamtopo.logs import Log, Topic
from streamtopo.records import Columns, TopicPartition
from tests.cli.conftest import Run, Start, objects
from tests.crash.apps import catch_up
from tests.logs.child import until

IN, OUT = TopicPartition("in", 0), TopicPartition("out", 0)
APP = "./counting.py"
COUNTING = """
from streamtopo import StreamsBuilder
builder = StreamsBuilder("counting")
builder.stream("in", key=str, value=str).group_by(lambda key, value: value).count(name="counts").to_stream().to("out")
builder.stream("other", value=str).to("out")
builder.global_table("everywhere", name="known")
"""
INTERNAL = ["counting-counts-changelog", "counting-counts-repartition"]


@pytest.fixture
def counted(folder: Path, log: Log) -> Log:
    """A log in which the application has counted three records, with times 0, 10 and 20, and one of another topic."""
    (folder / "counting.py").write_text(COUNTING)
    for name in ("in", "other", "out", "everywhere"):
        log.create(Topic(name, 1))
    log.append(IN, Columns([None] * 3, [b"a", b"b", b"a"], [0, 10, 20]))
    log.append(TopicPartition("other", 0), Columns([None], [b"x"], [0]))
    work(log)
    return log


def work(log: Log) -> None:
    worker = Worker(load_topology(APP), log, cache=0)
    catch_up(worker)
    worker.close()


def counts(log: Log) -> list[tuple[bytes, int]]:
    batch = log.read(OUT, 0, 100)
    pairs = zip(batch.columns.keys, batch.columns.values, strict=True)
    return [(key, int.from_bytes(value, "big")) for key, value in pairs if key and value]


def positions(log: Log) -> dict[str, int]:
    return {str(partition): at.offset for partition, at in log.groups()["counting"].positions.items()}


FIRST = [(b"a", 1), (b"b", 1), (b"a", 2)]


def test_all_input_is_processed_again(run: Run, counted: Log, folder: Path) -> None:
    assert counts(counted) == FIRST
    result = run("reset", APP)
    assert result.exit_code == 0, result.output
    assert result.stderr == "counting: done; the workers can be started\n"
    assert not list(folder.glob(".streamtopo/state/counting/*"))
    assert sorted(counted.topics()) == ["everywhere", "in", "other", "out"]
    assert positions(counted) == {"in/0": 0, "other/0": 0}
    work(counted)
    assert counts(counted) == FIRST * 2


def test_a_kept_changelog_restores_its_rows(run: Run, counted: Log) -> None:
    changelog, repartition = INTERNAL
    assert run("reset", APP, "--internal-topics", repartition).exit_code == 0
    assert changelog in counted.topics()
    assert repartition not in counted.topics()
    work(counted)
    assert counts(counted) == [*FIRST, (b"a", 3), (b"b", 2), (b"a", 4)]


def test_a_dry_run_only_shows_the_changes(run: Run, counted: Log) -> None:
    before = (positions(counted), counted.topics(), counted.note("counting/fingerprint"))
    result = run("reset", APP, "--dry-run", "--shift-by", "-1")
    assert result.stdout.splitlines() == [
        "move\tin/0\t3\t2",
        "move\tother/0\t1\t0",
        f"delete topic\t{INTERNAL[0]}\t-\t-",
        f"delete topic\t{INTERNAL[1]}\t-\t-",
        "delete state\t.streamtopo/state/counting/counts-0\t-\t-",
    ]
    assert result.stderr == "counting: dry run, nothing was changed\n"
    assert (positions(counted), counted.topics(), counted.note("counting/fingerprint")) == before
    assert objects(run("reset", APP, "--dry-run", "--json"))[0][0] == {
        "action": "move",
        "what": "in/0",
        "from": 3,
        "to": 0,
    }


@pytest.mark.parametrize(
    ("target", "offset"),
    [
        ([], 0),
        (["--to-earliest"], 0),
        (["--to-latest"], 3),
        (["--to-offset", "1"], 1),
        (["--to-offset", "99"], 3),
        (["--to-datetime", "1970-01-01T00:00:00.010"], 1),
        (["--to-datetime", "1970-01-01T01:00:00.011+01:00"], 2),
        (["--to-datetime", "1970-01-02"], 3),
        (["--by-duration", "1d"], 3),
        (["--by-duration", "P40000DT2H"], 0),
        (["--shift-by", "-2"], 1),
        (["--shift-by", "-9"], 0),
        (["--shift-by", "5"], 3),
    ],
)
def test_the_position_can_be_given_in_many_ways(target: list[str], offset: int, run: Run, counted: Log) -> None:
    result = run("reset", APP, "--input-topics", "in", *target)
    assert result.exit_code == 0, result.output
    assert positions(counted) == {"in/0": offset, "other/0": 1}


def test_positions_of_deleted_records_are_not_used(run: Run, counted: Log) -> None:
    counted.delete_before(IN, 2)
    assert run("reset", APP, "--to-offset", "1").exit_code == 0
    assert positions(counted) == {"in/0": 2, "other/0": 1}


def test_offsets_can_be_read_from_a_file(run: Run, counted: Log, folder: Path) -> None:
    (folder / "offsets.csv").write_text("in,0,2\n")
    assert run("reset", APP, "--from-file", "offsets.csv").exit_code == 0
    assert positions(counted) == {"in/0": 2, "other/0": 1}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["--input-topics", "in,out"],
            1,
            '"counting" does not read the topic "out"; it has: in, other',
        ),
        (["--input-topics", "everywhere"], 1, "does not read the topic"),
        (["--internal-topics", "in"], 1, '"counting" has no internal topic "in"; it has: counting-'),
        (["--input-topics", ","], 2, "give at least one topic"),
        (["--to-latest", "--shift-by", "3"], 2, "--to-latest and --shift-by cannot be combined"),
        (["--to-datetime", "yesterday"], 2, "'yesterday' is not a time; give one in UTC, such as 2026-01-31"),
        (["--by-duration", "P"], 2, "'P' is not a duration"),
        (["--from-file", "counting.py"], 2, "which is not TOPIC,PARTITION,OFFSET"),
        (["--from-file", "empty.csv"], 2, "empty.csv has no line TOPIC,PARTITION,OFFSET"),
        (["--from-file", "beyond.csv"], 1, "the file names partition in/7, which is not being reset"),
    ],
)
def test_a_refused_reset_changes_nothing(
    arguments: list[str], code: int, said: str, run: Run, counted: Log, folder: Path
) -> None:
    (folder / "empty.csv").write_text("\n")
    (folder / "beyond.csv").write_text("in,7,2\n")
    result = run("reset", APP, *arguments)
    assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
    assert positions(counted) == {"in/0": 3, "other/0": 1, f"{INTERNAL[1]}/0": 3}


def test_it_refuses_while_a_worker_is_running_and_waits_for_one_that_stops(
    run: Run, start: Start, counted: Log
) -> None:
    worker = start("worker", APP)
    until(lambda: counted.groups()["counting"].members)
    refused = run("reset", APP)
    assert (refused.exit_code, 'group "counting" has 1 member alive' in refused.stderr) == (1, True)
    assert INTERNAL[0] in counted.topics()
    waiting = start("reset", APP, "--force")
    os.kill(worker.pid, signal.SIGTERM)
    _, said = waiting.communicate(timeout=60)
    assert (waiting.returncode, b"done" in said) == (0, True), said
    assert INTERNAL[0] not in counted.topics()


def test_a_store_in_use_is_not_deleted_and_the_log_is_left_alone(run: Run, counted: Log) -> None:
    from streamtopo.stores.backends.directory import StateDirectory

    held = StateDirectory(".streamtopo/state", "counting").open(["counts"], 0)
    result = run("reset", APP)
    assert (result.exit_code, "is in use by process" in result.stderr) == (1, True)
    assert held.rows.exists()
    assert positions(counted)["in/0"] == 3
    held.release()
    work(counted)


def test_other_files_stay_in_the_state_directory(run: Run, counted: Log, folder: Path) -> None:
    (folder / ".streamtopo/state/counting/mine").mkdir()
    assert run("reset", APP).exit_code == 0
    assert [path.name for path in (folder / ".streamtopo/state/counting").iterdir()] == ["mine"]


def test_a_killed_reset_must_be_repeated_before_a_worker_starts(run: Run, counted: Log) -> None:
    note = note_of(load_topology(APP))
    counted.write_note(note, unfinished(counted.note(note)))
    counted.delete(INTERNAL[0])
    with pytest.raises(FingerprintError, match=r"reset: started and not finished; run streamtopo reset again"):
        work(counted)
    assert run("reset", APP).exit_code == 0
    work(counted)
    assert counts(counted) == FIRST * 2


def test_internal_topics_of_earlier_versions_are_deleted_too(run: Run, counted: Log, folder: Path) -> None:
    (folder / "counting.py").write_text(COUNTING.replace('name="counts"', 'name="totals"'))
    del sys.modules["counting"]
    shown = [line.split("\t")[1] for line in run("reset", APP, "--dry-run").stdout.splitlines()]
    assert shown == ["in/0", "other/0", *INTERNAL, ".streamtopo/state/counting/counts-0"]


def test_an_application_that_never_ran_has_nothing_to_delete(run: Run, log: Log) -> None:
    assert json.loads(run("reset", "apps.wordcount", "--json").stdout) == []
