"""The embedded log between processes: death in the middle of a commit, stopped members, and many at once."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from streamtopo.errors import LogError
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog, EmbeddedMember
from streamtopo.logs.embedded.storage import checkpoints, checksums, database
from streamtopo.records import Headers, Position
from tests.logs.child import Child, until
from tests.logs.records import DONE, NOT_DONE, T0, T1, UNKNOWN, at, drain, join, numbered, rows, settled, values


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(tmp_path / "log", lease=0.4)
    log.create(Topic("t", 2))
    yield log
    log.close()


@pytest.fixture
def child(log: EmbeddedLog) -> Iterator[Child]:
    child = Child(log.path, lease=0.4)
    yield child
    child.kill()


def embedded(log: EmbeddedLog) -> EmbeddedMember:
    return log.join("g", [("t",)])


# -- death

DYING = """
import os, sys
from streamtopo.logs.embedded import EmbeddedLog
from tests.logs.records import *
path, step = sys.argv[1:]
for step in range(int(step)):
    if os.fork():
        _, status = os.wait()
        print(os.waitstatus_to_exitcode(status), flush=True)
        continue
    log = EmbeddedLog(path)
    member = join(log)
    member.assignment()
    before = member.committed([T0]).get(T0, Position(0)).offset
    member.send(T0, rows(b"%d" % before))
    member.send(T1, rows(b"%d" % before))
    left = [step]
    def count(statement):
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)
    member._connection.set_trace_callback(count)
    committed = member.commit(at(before + 1, before + 1))
    os._exit(committed.outcome is not DONE)
"""


def test_death_at_any_step_of_a_commit_leaves_all_of_it_or_nothing(log: EmbeddedLog) -> None:
    command = [sys.executable, "-c", DYING, str(log.path), "25"]
    codes = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]).stdout
    done = codes.split().count("0")
    assert codes.split() == ["9"] * (25 - done) + ["0"] * done
    assert 0 < done < 15
    expected = [b"%d" % number for number in range(done)]
    assert (values(log), values(log, T1)) == (expected, expected)
    assert settled(join(log)) == [{"t/0", "t/1"}]
    assert len(os.listdir(log.path / "members")) == 1


def test_kills_at_random_moments_lose_nothing_that_was_done(log: EmbeddedLog) -> None:
    rng = random.Random(1)
    reported = 0
    for _ in range(4):
        child = Child(log.path)
        assert child("settled(member) and 0") == "0"
        child.say(
            "[(member.send(T0, rows(b'%d' % n)), member.send(T1, rows(b'%d' % n)), member.commit(at(n + 1, n + 1)), "
            "print(n + 1, flush=True)) for n in range(member.committed([T0]).get(T0, (0,))[0], 10**9)]"
        )
        reported = int(child.hear())
        time.sleep(rng.random() * 0.03)
        child.process.kill()
        assert child.process.stdout
        reported = max(reported, *map(int, child.process.stdout.read().split()), 0)
        child.kill()
        whole = [b"%d" % number for number in range(log.end(T0))]
        assert (values(log), values(log, T1)) == (whole, whole)
        assert join(log, group="g").committed([T0, T1]) == at(len(whole), len(whole))
        assert len(whole) >= reported


def test_a_dead_members_work_is_taken_at_once(log: EmbeddedLog) -> None:
    patient, child = EmbeddedLog(log.path, lease=60), Child(log.path, lease=60)
    mine = embedded(patient)
    assert child("len(settled(member)[0])") == "2"
    settled(mine)
    assert child("len(settled(member)[0])") == "1"
    assert len(mine.assignment()) == 1
    child.kill()
    until(lambda: mine.assignment() == {T0, T1}, seconds=10)
    patient.close()


def test_a_stopped_member_is_fenced_and_finds_out_when_it_wakes(log: EmbeddedLog, child: Child) -> None:
    assert child("sorted(settled(member)[0])") == "['t/0', 't/1']"
    child("member.send(T0, rows(b'twice'))")
    os.kill(child.process.pid, signal.SIGSTOP)
    mine = embedded(log)
    until(lambda: mine.assignment() == {T0, T1})
    mine.send(T0, rows(b"once"))
    assert mine.commit(at(1, 1)).outcome is DONE
    os.kill(child.process.pid, signal.SIGCONT)
    assert child("member.commit(at(1, 1)).outcome") == "Outcome.NOT_DONE"
    assert child("member.assignment()") == "frozenset()"
    assert values(log) == [b"once"]
    child("settled(member)")
    assert len(mine.assignment()) == 1


def test_a_slow_step_is_not_taken_for_death(log: EmbeddedLog) -> None:
    slow, other = embedded(log), embedded(log)
    settled(slow, other)
    start = time.monotonic()
    while time.monotonic() - start < 0.5:
        other.assignment()
    assert slow.commit({part: Position(1) for part in slow.assignment()}).outcome is DONE


# -- news


def test_another_process_sees_a_commit_at_once(log: EmbeddedLog, child: Child) -> None:
    child("member.seek(T0, 0)")
    child("member.poll(1, 0)")
    for number in range(3):
        child.say("member.poll(10, 10)[0].columns.values")
        log.append(T0, rows(b"%d" % number))
        assert child.hear() == f"[b'{number}']"


def test_processes_that_create_a_log_at_once_create_one(tmp_path: Path) -> None:
    children = [Child(tmp_path / "new") for _ in range(3)]
    for child in children:
        child.say("log.id")
    with closing(EmbeddedLog(tmp_path / "new")) as log:
        assert len({child.hear() for child in children} | {log.id}) == 1
    for child in children:
        child.kill()


def test_connecting_writes_nothing_and_waits_for_no_writer(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.05)
    writer = sqlite3.connect(log.path / "log.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with closing(EmbeddedLog(log.path)) as other:
        assert other.topics().keys() == {"t"}
    assert writer.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert writer.execute("PRAGMA page_size").fetchone() == (8192,)
    writer.close()


def test_a_reader_of_everything_does_not_let_the_wal_grow(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "EVERY", 1 << 20)
    reading, sizes = threading.Event(), []
    scanner = threading.Thread(target=lambda: [values(log) for _ in iter(reading.is_set, True)], daemon=True)
    scanner.start()
    try:
        for _ in range(150):
            log.append(T0, rows(os.urandom(200_000)))
            sizes.append(os.path.getsize(log.path / "log.db-wal"))
    finally:
        reading.set()
        scanner.join()
    assert max(sizes) < 12_000_000
    assert log.end(T0) == 150


def test_writers_do_not_wait_for_a_checkpoint_that_a_long_reader_holds_back(log: EmbeddedLog) -> None:
    """Such as a backup by SQLite's own means. When that is over, checkpoints continue."""
    log.append(T0, rows(b"before"))
    reader, writer = (sqlite3.connect(log.path / "log.db", timeout=0, isolation_level=None) for _ in range(2))
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM batches").fetchone() == (1,)
    log.append(T0, rows(b"after"))
    done: list[bool] = []
    checkpointer = sqlite3.connect(log.path / "log.db", check_same_thread=False, isolation_level=None)
    thread = threading.Thread(target=lambda: done.append(checkpoints.checkpoint(checkpointer)), daemon=True)
    thread.start()
    while thread.is_alive():
        writer.execute("BEGIN IMMEDIATE")  # raises at once if somebody else may write
        writer.execute("ROLLBACK")
    assert done == [False]
    reader.execute("COMMIT")
    assert checkpoints.checkpoint(checkpointer)
    for connection in (reader, writer, checkpointer):
        connection.close()


# -- commits that fail


class Failing(sqlite3.Connection):
    """Its COMMIT raises what a disk would make it raise, before or after it took effect."""

    happens = False

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "COMMIT" and self.total_changes:
            super().execute("COMMIT" if self.happens else "ROLLBACK")
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
            raise error
        return super().execute(statement, *values)


@pytest.mark.parametrize("happens", [True, False])
def test_an_unknown_commit_is_settled_by_looking(log: EmbeddedLog, happens: bool) -> None:
    member = embedded(log)
    settled(member)
    member._connection.close()
    member._connection = failing = sqlite3.connect(log.path / "log.db", isolation_level=None, factory=Failing)
    failing.create_function("seal", -1, checksums.seal)
    failing.happens = happens
    member.send(T0, rows(b"a"))
    committed = member.commit(at(1, 1))
    assert committed.outcome is UNKNOWN
    assert "the disk failed" in committed.reason
    member.settle()
    assert (member.committed([T0]), values(log)) == (({T0: Position(1)}, [b"a"]) if happens else ({}, []))
    member.send(T0, rows(b"b"))
    assert member.commit(at(2, 2)).outcome is DONE


def test_a_log_that_another_process_keeps_locked_says_so(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.02)
    member = embedded(log)
    settled(member)
    member.send(T0, rows(b"a"))
    connection = sqlite3.connect(log.path / "log.db", isolation_level=None)
    with closing(connection), database.writing(connection):
        committed = member.commit(at(1, 1))
        with pytest.raises(LogError, match="another process has been writing for too long"):
            log.append(T0, rows(b"b"))
    assert (committed.outcome, "another process has been writing" in committed.reason) == (NOT_DONE, True)
    assert member.commit(at(1, 1)).outcome is DONE
    assert values(log) == [b"a"]


def test_a_closed_log_says_so(log: EmbeddedLog) -> None:
    log.close()
    with pytest.raises(LogError, match="is closed; open it again"):
        log.topics()


def test_a_member_that_nobody_refers_to_any_more_leaves_with_its_log(log: EmbeddedLog) -> None:
    assert settled(join(log)) == [{"t/0", "t/1"}]
    log.close()
    with closing(EmbeddedLog(log.path)) as again:
        assert again.groups() == {}
    assert os.listdir(log.path / "members") == []


def test_a_log_is_as_it_was_when_it_is_opened_again(log: EmbeddedLog) -> None:
    log.append(T0, numbered(10_500))
    topics = log.topics()
    member = join(log)
    settled(member)
    member.commit(at(3, 4))
    log.close()
    again = EmbeddedLog(log.path, synchronous="normal")
    assert (again.id, again.topics(), again.end(T0)) == (log.id, topics, 10_500)
    follower = join(again)
    follower.seek(T0, 10_400)
    assert len(drain(follower)) == 100
    assert follower.committed([T0, T1]) == at(3, 4)
    again.close()


def test_an_sqlite_that_trusts_no_triggers_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is when it was built with SQLITE_TRUSTED_SCHEMA=0."""
    connect = sqlite3.connect

    def distrusting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.execute("PRAGMA trusted_schema=OFF")
        return connection

    monkeypatch.setattr(sqlite3, "connect", distrusting)
    with closing(EmbeddedLog(tmp_path)) as log:
        log.write_note("a", "b")
        assert log.note("a") == "b"


def test_tracebacks_are_compressed(log: EmbeddedLog) -> None:
    """A million dead letters would be two gigabytes, which take several seconds to read."""
    traceback = b"".join(b'File "orders.py", line %d, in step_%d\n' % (line, line) for line in range(30))
    headers: list[Headers] = [(("traceback", b"%s bad amount %d" % (traceback, row)),) for row in range(500)]
    log.append(T0, rows(*[b"x"] * 500, headers=headers))
    log.append(T1, rows(*[b"x"] * 500, headers=[(("trace", b"%040d" % row),) for row in range(500)]))
    with closing(sqlite3.connect(log.path / "log.db")) as connection:
        sizes = dict(connection.execute("SELECT partition, bytes FROM batches").fetchall())
    assert sizes[0] < 500 * len(traceback) / 10
    assert sizes[1] > 500 * 40
