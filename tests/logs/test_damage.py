"""Damage to the embedded log's files: it is found before it is used, and the error says where it is."""

from __future__ import annotations

import faulthandler
import json
import os
import random
import re
import shutil
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from streamtopo.errors import LogDamaged, LogError, StreamtopoError
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.embedded.arrow_log import ArrowLog, Slice, TimestampRange
from streamtopo.logs.embedded.storage import checksums, database, verification
from streamtopo.logs.embedded.storage.batches import encode
from streamtopo.logs.embedded.storage.verification import verify
from streamtopo.records import Columns, Position, TopicPartition
from tests.logs.child import Child
from tests.logs.records import T0, T1, at, join, keyed, numbered, reader, rows, settled, values

RESTORE = "restore a copy"


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closed at the end, as a log that is damaged is not always closed; Python 3.13 warns of those that are left."""
    connect = sqlite3.connect
    opened: list[sqlite3.Connection] = []

    def remembered(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", remembered)
    yield
    for connection in opened:
        connection.close()


def changed(path: Path, statement: str) -> None:
    """Change log.db as no streamtopo would."""
    with closing(sqlite3.connect(path / "log.db")) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)


def log_of(path: Path, **config: str) -> EmbeddedLog:
    """Three batches of 100 records in t/0, one in t/1, and the position of a group."""
    log = EmbeddedLog(path)
    log.create(Topic("t", 2, {name.replace("_", "."): value for name, value in config.items()}))
    for start in (0, 100, 200):
        keys: list[bytes | None] = [b"key%d" % number for number in range(start, start + 100)]
        log.append(T0, Columns(keys, [b"value of %s" % key for key in keys if key], [1000 + start] * 100, None))
    log.append(T1, rows(b"1", b"2", headers=[(("h", b"x"),), ()]))
    log.place_group("g", at(5, 6))
    log.write_note("a", "b")
    return log


@pytest.mark.parametrize("column", ["base_offset", "count", "min_timestamp", "max_timestamp", "appended", "bytes"])
def test_a_batch_whose_row_was_changed_is_damaged(tmp_path: Path, column: str) -> None:
    log_of(tmp_path).close()
    changed(tmp_path, f"UPDATE batches SET {column} = {column} + 1 WHERE last_offset = 199")
    log = EmbeddedLog(tmp_path)
    with pytest.raises(
        LogDamaged, match=r"records of t/0 from offset 10[01] to 1\d\d are damaged in log\.db: .*" + RESTORE
    ):
        values(log)
    assert len(log.read(T0, 200, 100).offsets) == 100


def test_batches_that_were_swapped_are_damaged(tmp_path: Path) -> None:
    log_of(tmp_path).close()
    changed(tmp_path, "UPDATE batches SET data = (SELECT b.data FROM batches b WHERE b.last_offset = 299)")
    with pytest.raises(LogDamaged, match="checksum"):
        values(EmbeddedLog(tmp_path))


@pytest.mark.parametrize("batch", [99, 199, 299])
def test_a_batch_that_is_not_found_is_missed(tmp_path: Path, batch: int) -> None:
    log = log_of(tmp_path)
    member = reader(log, T0)
    changed(tmp_path, f"DELETE FROM batches WHERE last_offset = {batch}")
    for read in (lambda: values(log), lambda: member.poll(1000, 0), lambda: bulk(tmp_path)):
        with pytest.raises(LogDamaged, match=f"from offset {batch - 99} to {batch} are damaged.* does not find them"):
            read()


def bulk(path: Path) -> int:
    with closing(ArrowLog(path)) as log:
        end = log.extents("t")[0]
        return sum(batch.num_rows for batch in log.batches(Slice(log.log, end.topic, T0, 0, end.end), TimestampRange()))


def test_every_reader_checks(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    member = reader(log, T0)
    changed(tmp_path, "UPDATE batches SET data = CAST(data || x'00' AS BLOB) WHERE last_offset = 99")
    for read in (
        lambda: values(log),
        lambda: member.poll(1000, 0),
        lambda: bulk(tmp_path),
        lambda: log.offset_at(T0, 0),
        lambda: log.compact(T0),
    ):
        with pytest.raises(LogDamaged, match="records of t/0 from offset 0 to 99"):
            read()


def test_cleaning_leaves_what_is_damaged_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = log_of(tmp_path, cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    log.append(T0, keyed("a1 a2 " * 1000))
    log.append(T1, keyed("a1 a2 " * 1000))
    changed(tmp_path, "UPDATE batches SET data = CAST(data || x'00' AS BLOB) WHERE last_offset = 99")
    while log.clean():
        pass
    assert [record.message[:37] for record in caplog.records] == ["t/0 is not cleaned any more: the reco"]
    with pytest.raises(LogDamaged):
        values(log)
    assert values(log, T1)[-1:] == [b"2"]
    assert len(values(log, T1)) < 10


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("UPDATE positions SET next_offset = 4", r'table "positions": the row \(.g., 1, 0\) is not what was written'),
        ("UPDATE positions SET group_name = 'h'", 'table "positions"'),
        ("UPDATE partitions SET next_offset = 298 WHERE partition = 0", 'table "partitions"'),
        ("UPDATE notes SET text = 'c'", 'table "notes"'),
        ("UPDATE meta SET value = 'x' WHERE name = 'id'", 'table "meta"'),
        ("UPDATE topics SET config = 'x'", 'table "topics"'),
        ("UPDATE meta SET value = CAST(x'ff' AS TEXT)", 'table "meta": a text in it is not UTF-8'),
        ("UPDATE topics SET name = CAST(x'ff' AS TEXT)", 'table "topics": a text in it is not UTF-8'),
    ],
)
def test_a_small_table_that_was_changed_is_damaged(tmp_path: Path, change: str, what: str) -> None:
    log_of(tmp_path).close()
    changed(tmp_path, change)
    advice = rf"in log\.db; {RESTORE}.*streamtopo topics verify lists all damage"
    with pytest.raises(LogDamaged, match=f'the log at "{tmp_path}" is damaged: {what}.*{advice}'):
        EmbeddedLog(tmp_path)
    assert any(re.search(what, damage.problem) for damage in verify(tmp_path, []).damages)


def test_a_locked_database_is_not_called_damaged(tmp_path: Path) -> None:
    """The advice for damage is to move the log away, which nobody should do because another process has it."""
    log_of(tmp_path).close()
    with (
        closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as other,
        closing(sqlite3.connect(tmp_path / "log.db", timeout=0)) as connection,
    ):
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        for look in (checksums.damages, verification.structure):
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                list(look(connection))


def test_checksums_of_texts_do_not_depend_on_what_python_can_print(tmp_path: Path) -> None:
    """Each Python knows the characters of one Unicode version; a log may be opened by a later one."""
    with closing(EmbeddedLog(tmp_path)) as log:
        log.write_note("a", "\U0001fa77")  # new in Unicode 15, which Python 3.11 does not know
        log.write_note("b", "é")
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        found = connection.execute("SELECT crc FROM notes ORDER BY name").fetchall()
    assert found == [(crc32(rb"('a', '\U0001fa77')"),), (crc32(rb"('b', '\xe9')"),)]


def test_a_partition_that_is_damaged_is_not_written_to(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    with log._database.connection() as connection:
        connection.execute("DROP TRIGGER partitions_updated")
        connection.execute("UPDATE partitions SET crc = crc + 1")
    with pytest.raises(LogError, match=r"log\.db is damaged; restore a copy.*the table partitions is not what was"):
        log.append(T0, rows(b"1"))


def test_damage_is_named(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path)
    log.create(Topic("t", 1))
    log.append(T0, numbered(30_000))
    log.close()
    whole = (tmp_path / "log.db").read_bytes()
    (tmp_path / "log.db").write_bytes(b"not a database" + whole[14:])
    with pytest.raises(LogError, match="is not a database, or is damaged; restore a copy, or move the directory away"):
        EmbeddedLog(tmp_path)
    (tmp_path / "log.db").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LogError, match=r"log\.db is damaged; restore a copy"):
        values(EmbeddedLog(tmp_path))


# -- logs of earlier formats


def old_log(path: Path, version: int) -> None:
    """As that version left it: t/0 with three records in two batches, and a position."""
    with closing(sqlite3.connect(path / "log.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        for statement in (one for step in database.STEPS[:version] for one in step):
            connection.execute(statement)
        connection.execute("INSERT INTO meta VALUES ('id', 'abc'), ('generation', 0)")
        connection.execute("INSERT INTO topics VALUES (1, 't', 1, '{\"cleanup.policy\": \"compact\"}')")
        connection.execute("INSERT INTO partitions VALUES (1, 0, 0, 3, 3, 2000, 0)")
        connection.execute("INSERT INTO positions VALUES ('g', 1, 0, 2, '')")
        for base, columns in ((0, keyed("a1 b1")), (2, keyed("a2"))):
            (batch,) = encode(columns)
            facts = (1, 0, base, base + batch.rows - 1, batch.rows, 0, 0, 0, batch.size)
            connection.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*facts, batch.data))
        connection.execute(f"PRAGMA user_version={version}")


@pytest.mark.parametrize("version", [1, 2])
def test_a_log_of_an_earlier_format_is_used(tmp_path: Path, version: int) -> None:
    old_log(tmp_path, version)
    log = EmbeddedLog(tmp_path)
    assert (values(log), log.id) == ([b"1", b"1", b"2"], "abc")
    state = log.group("g")
    assert state is not None
    assert state.positions == {T0: Position(2)}
    assert log.append(T0, keyed("c1")) == 4
    log.compact(T0)
    assert values(log) == [b"1", b"2", b"1"]
    with log._database.connection() as connection:
        assert connection.execute("SELECT count(*) FROM batches WHERE crc IS NULL").fetchone() == (0,)


def test_processes_that_bring_a_log_up_at_once_do_it_once(tmp_path: Path) -> None:
    old_log(tmp_path, 2)
    children = [Child(tmp_path) for _ in range(4)]
    for child in children:
        child.say("values(log)")
    assert [child.hear() for child in children] == ["[b'1', b'1', b'2']"] * 4
    for child in children:
        child.kill()


def test_a_worker_of_an_earlier_version_that_runs_on_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    old_log(tmp_path, 2)
    with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (2,)
        log = EmbeddedLog(tmp_path)
        for write in (
            "INSERT INTO batches VALUES (1, 0, 3, 3, 1, 0, 0, 0, 1, x'00')",
            "INSERT INTO positions VALUES ('g', 1, 0, 3, '')",
            "INSERT INTO topics (name, partitions, config) VALUES ('u', 1, '{}')",
            "UPDATE partitions SET next_offset = 4",
            "UPDATE meta SET value = value + 1 WHERE name = 'generation'",
        ):
            with pytest.raises(sqlite3.OperationalError, match=r"columns but|no such function: seal"):
                old.execute(write)
    assert values(log) == [b"1", b"1", b"2"]


def test_a_damaged_batch_without_a_checksum_cannot_crash_the_process(tmp_path: Path) -> None:
    old_log(tmp_path, 2)
    EmbeddedLog(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        (data,) = connection.execute("SELECT data FROM batches WHERE last_offset = 1").fetchone()
    kinds: Counter[str] = Counter()
    for place in range(0, len(data), 4):
        flipped = data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
        with closing(sqlite3.connect(tmp_path / "log.db")) as connection, connection:
            connection.execute("UPDATE batches SET data = ? WHERE last_offset = 1", (flipped,))
        kinds[in_a_process(lambda: len(values(EmbeddedLog(tmp_path))))] += 1
    assert kinds.keys() <= {"3", "clear error"}


def test_zeros_in_a_batch_without_a_checksum_are_damage(tmp_path: Path) -> None:
    """What a disk gives back for what it lost."""
    old_log(tmp_path, 2)
    EmbeddedLog(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        (data,) = connection.execute("SELECT data FROM batches WHERE last_offset = 1").fetchone()
    for place in range(0, len(data), 8):
        with closing(sqlite3.connect(tmp_path / "log.db")) as connection, connection:
            zeros = data[:place] + bytes(len(data) - place)
            connection.execute("UPDATE batches SET data = ? WHERE last_offset = 1", (zeros,))
        with closing(EmbeddedLog(tmp_path)) as log, suppress(LogDamaged):  # where only values are zeros, they are read
            values(log)


# -- any bit


def in_a_process(read: Callable[[], object]) -> str:
    """What came of it in a process of its own, which damage may end."""
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        faulthandler.disable()
        signal.alarm(60)
        try:
            kind = str(read())
        except StreamtopoError as error:
            kind = "clear error" if len(str(error)) > 60 else f"unclear: {error}"
        except BaseException as error:
            kind = f"bare {type(error).__name__}: {error}"
        os.write(sender, kind.encode()[:4000])
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as answer:
        kind = answer.read().decode()
    _, status = os.waitpid(child, 0)
    return kind or f"killed by {signal.Signals(os.WTERMSIG(status)).name}"


def everything(path: Path) -> Any:
    """What users can see of a log: topics, records, positions, notes."""
    with closing(EmbeddedLog(path)) as log:
        topics = log.topics()
        parts = [TopicPartition(name, number) for name in sorted(topics) for number in range(topics[name].partitions)]
        batches = [log.read(part, log.start(part), 1 << 20) for part in parts]
        late = [log.read(part, log.end(part) // 2, 10) for part in parts]
        groups = {name: state.positions for name, state in log.groups().items()}
        polled = join(log, group="other")
        settled(polled)
        return topics, batches, late, groups, log.note("a"), log.id


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plain and compacted partitions, headers, deletions, several small tables, enough for an index of two levels."""
    path = tmp_path_factory.mktemp("good")
    with closing(log_of(path / "log", cleanup_policy="compact")) as log:
        log.create(Topic("u", 1))
        plain = TopicPartition("u", 0)
        for number in range(1500):
            log.append(plain, rows(b"%d" % number))
        log.append(T1, keyed("a1 b1 a2 b-"))
        log.compact(T1)
        log.write_note("fingerprint", json.dumps({"stores": ["x"] * 100}))
    with closing(sqlite3.connect(path / "log" / "log.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path / "log"


def flips(path: Path, seed: int, count: int) -> Iterator[int]:
    """Places of `count` bits, as many in pages of indexes and small tables as in those of records."""
    rng = random.Random(seed)
    size = (path / "log.db").stat().st_size
    for _ in range(count):
        page = rng.choice([0, rng.randrange(30), rng.randrange(size // 8192)])
        yield (page * 8192 + rng.randrange(8192)) * 8 + rng.randrange(8)


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_is_harmless_or_a_clear_error(good: Path, tmp_path: Path, seed: int) -> None:
    expected = everything(good)
    found: dict[str, list[int]] = {}
    for bit in flips(good, seed, 60):
        shutil.copytree(good, tmp_path / "bad")
        with (tmp_path / "bad" / "log.db").open("r+b") as file:
            file.seek(bit // 8)
            byte = file.read(1)[0]
            file.seek(bit // 8)
            file.write(bytes([byte ^ 1 << bit % 8]))
        kind = in_a_process(lambda: "harmless" if everything(tmp_path / "bad") == expected else "other records")
        found.setdefault(kind, []).append(bit)
        shutil.rmtree(tmp_path / "bad")
    assert found.keys() <= {"harmless", "clear error"}, found


# -- verify


def test_verify_lists_all_damage(tmp_path: Path) -> None:
    log_of(tmp_path).close()
    assert verify(tmp_path, []) == ([], 4, 302, 0)
    changed(tmp_path, "UPDATE batches SET data = CAST(data || x'00' AS BLOB) WHERE last_offset IN (99, 299)")
    changed(tmp_path, "UPDATE notes SET text = 'c'")
    found = verify(tmp_path, []).damages
    assert [(one.topic, one.partition, one.first, one.last) for one in found] == [
        (None, None, None, None),
        ("t", 0, 0, 99),
        ("t", 0, 200, 299),
    ]
    assert verify(tmp_path, ["t"]).damages == found
