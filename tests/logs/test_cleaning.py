"""Retention and compaction of the embedded log, slice by slice."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamtopo.errors import LogError
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.embedded.cleaning.compaction import compaction
from streamtopo.logs.embedded.storage import checkpoints, statements
from streamtopo.logs.embedded.storage.batches import BatchView, merge
from streamtopo.logs.embedded.storage.database import writing
from streamtopo.records import Columns, TopicPartition
from tests.logs.child import until
from tests.logs.records import T0, join, keyed, reader, rows, values


class Clock:
    time = 1_000_000

    def __call__(self) -> int:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(tmp_path / "log", now=clock)
    yield log
    log.close()


def clean(log: EmbeddedLog) -> int:
    """How many slices it took."""
    slices = 1
    while log.clean(slice_ms=1):
        slices += 1
    return slices


def checkpointed(log: EmbeddedLog) -> None:
    """Nothing is left in the WAL; the log's own checkpoint may be at it, and then this one is refused."""
    with log._database.connection() as connection:
        until(lambda: not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])


def create(log: EmbeddedLog, **config: object) -> None:
    log.create(Topic("t", 1, {name.replace("_", "."): str(value) for name, value in config.items()}))


def test_everything_is_kept_by_default(log: EmbeddedLog, clock: Clock) -> None:
    create(log)
    log.append(T0, keyed("a1 a2"))
    clock.time += 10**12
    clean(log)
    assert values(log) == [b"1", b"2"]


def test_old_batches_go_by_the_time_of_their_append(log: EmbeddedLog, clock: Clock) -> None:
    create(log, retention_ms=5000)
    for number in range(5):
        log.append(T0, rows(b"%d" % number))  # their timestamps are of 1970
        clock.time += 2000
    clean(log)
    assert (log.start(T0), values(log)) == (3, [b"3", b"4"])
    clock.time += 10_000
    clean(log)
    assert (log.start(T0), log.end(T0), values(log)) == (5, 5, [])


def test_a_clock_set_back_deletes_nothing_and_loses_no_order(log: EmbeddedLog, clock: Clock) -> None:
    create(log, retention_ms=5000)
    log.append(T0, rows(b"a"))
    clock.time = 10
    log.append(T0, rows(b"b"))
    clock.time = 3000
    clean(log)
    assert values(log) == [b"a", b"b"]


def test_the_oldest_go_while_there_are_too_many_bytes(log: EmbeddedLog) -> None:
    create(log, retention_bytes=300_000)
    for number in range(10):
        log.append(T0, rows(b"%d" % number * 50_000))
    clean(log)
    assert [value and value[:1] for value in values(log)] == [b"5", b"6", b"7", b"8", b"9"]


def test_a_reader_that_retention_overtook_gets_an_error(log: EmbeddedLog, clock: Clock) -> None:
    create(log, retention_ms=5000)
    log.append(T0, rows(b"a"))
    member = reader(log, T0)
    clock.time += 10_000
    clean(log)
    with pytest.raises(LogError, match=r"offset 0 of t/0 is not in the log \(it has 1 to 1\)"):
        member.poll(1, 0)


def test_compaction_begins_when_half_of_a_topic_is_new(log: EmbeddedLog, clock: Clock) -> None:
    create(log, cleanup_policy="compact")
    log.append(T0, keyed("a1 b1 " * 400))
    clean(log)
    assert len(values(log)) == 800
    log.append(T0, keyed("a2 b2 " * 400))
    clock.time += 2000
    clean(log)
    assert log.read(T0, 0, 10).columns.values == [b"2", b"2"]
    assert (log.start(T0), log.end(T0)) == (0, 1600)
    log.append(T0, keyed("b3 c3"))
    clock.time += 2000
    clean(log)
    assert values(log) == [b"2", b"2", b"3", b"3"]


def test_tombstones_go_when_every_reader_had_its_time(log: EmbeddedLog, clock: Clock) -> None:
    create(log, cleanup_policy="compact", delete_retention_ms=60_000)
    log.append(T0, keyed("a1 b1 a-"))
    clock.time += 120_000  # however old it is: who has read a1 by now may need the rest of the time for the tombstone
    log.compact(T0)
    assert values(log) == [b"1", None]
    clock.time += 60_000
    log.compact(T0)
    assert values(log) == [b"1", None]
    clock.time += 1
    log.compact(T0)
    batch = log.read(T0, 0, 10)
    assert (batch.columns.values, list(batch.offsets), batch.next_offset) == ([b"1"], [1], 3)
    assert [(polled.columns.values, polled.next_offset) for polled in reader(log, T0).poll(10, 0)] == [([b"1"], 3)]


def test_tombstones_of_several_cleanings_go_one_after_the_other(log: EmbeddedLog, clock: Clock) -> None:
    create(log, cleanup_policy="compact", delete_retention_ms=60_000)
    for key in "abcd":
        log.append(T0, keyed(f"{key}1 {key}-"))
        clock.time += 20_000
        log.compact(T0)
    gone = []
    for _ in range(5):
        clock.time += 20_000
        log.compact(T0)
        gone.append(8 - len(log.read(T0, 0, 10).offsets) - 4)
    assert gone == [1, 2, 3, 4, 4]
    with log._database.connection() as connection:
        assert connection.execute("SELECT count(*) FROM cleanings").fetchone()[0] <= 2
    log.delete("t")
    with log._database.connection() as connection:
        assert connection.execute("SELECT count(*) FROM cleanings").fetchone() == (0,)


def test_many_cleanings_are_remembered_by_a_few(log: EmbeddedLog, clock: Clock) -> None:
    create(log, cleanup_policy="compact", delete_retention_ms=64_000)
    for number in range(200):
        log.append(T0, keyed(f"{chr(number + 50)}1 {chr(number + 50)}-"))
        clock.time += 1000
        log.compact(T0)
    with log._database.connection() as connection:
        assert 20 < connection.execute("SELECT count(*) FROM cleanings").fetchone()[0] < 40
    assert 60 < len(values(log)) < 72


def test_a_cleaning_that_was_disturbed_lets_no_tombstone_go(log: EmbeddedLog, clock: Clock) -> None:
    create(log, cleanup_policy="compact", delete_retention_ms=60_000)
    log.append(T0, rows(bytes(1 << 20), key=b"large"))
    log.append(T0, keyed("x1 a1 b1"))
    log.append(T0, keyed("a- c1"))
    with log._database.connection() as connection:
        topic = int(log.topics()["t"].id)
        cleaning = compaction(connection, topic, T0, clock, 60_000)
        for _ in range(4):
            next(cleaning)  # it has passed the large record, and knows the batches after it
        _, second, _ = statements.stored(connection, topic, T0, 0, 10)
        runs = [BatchView.open(blob, T0) for blob in statements.data(connection, topic, T0, second.last, second.last)]
        with writing(connection):
            assert statements.replace(connection, topic, T0, [second], merge(runs, [[False, True, True]]))
        deque(cleaning)
    assert values(log)[1:] == [b"1", b"1", None, b"1"]
    clock.time += 60_001
    log.compact(T0)
    assert values(log)[1:] == [b"1", None, b"1"]


def test_small_batches_become_large_ones(log: EmbeddedLog) -> None:
    create(log)
    for number in range(300):
        log.append(T0, Columns([b"%d" % number], [b"v"], [number], [(("h", b"%d" % number),)] if number % 2 else None))
    before = log.read(T0, 0, 1000)
    log.compact(T0)
    with log._database.connection() as connection:
        assert connection.execute("SELECT count(*), sum(count) FROM batches").fetchone() == (1, 300)
        assert connection.execute("SELECT records, compacted FROM partitions").fetchone() == (300, 300)
    assert log.read(T0, 0, 1000).columns == before.columns


def test_a_pass_is_done_in_short_slices(log: EmbeddedLog) -> None:
    create(log, cleanup_policy="compact", min_cleanable_dirty_ratio=0)
    for _ in range(20):
        keys: list[bytes | None] = [b"%d" % number for number in range(10_000)]
        log.append(T0, Columns(keys, keys, [0] * 10_000))
    longest, more = 0.0, True
    while more:
        start = time.thread_time()
        more = log.clean(slice_ms=10)
        longest = max(longest, time.thread_time() - start)
    assert len(values(log)) == 10_000
    assert longest < 0.05  # 10 ms and the last unit of work; time of this thread, for the machine does other things


def test_one_process_cleans_at_a_time(log: EmbeddedLog, clock: Clock) -> None:
    create(log, retention_ms=5000)
    for _ in range(3):
        log.append(T0, rows(b"a"))
    clock.time += 10_000
    other = EmbeddedLog(log.path, now=clock)
    assert log.clean(slice_ms=0)
    assert not other.clean()
    while log.clean():
        pass
    assert values(other) == []
    other.close()


def test_a_deleted_topic_frees_its_space(log: EmbeddedLog, clock: Clock) -> None:
    create(log)
    for _ in range(60):
        log.append(T0, rows(os.urandom(900_000)))
    log.delete("t")
    clean(log)
    checkpointed(log)
    with log._database.connection() as connection:
        assert connection.execute("SELECT count(*) FROM batches").fetchone() == (0,)
    assert os.path.getsize(log.path / "log.db") < 25_000_000


def test_cleaning_does_not_let_the_wal_grow(log: EmbeddedLog, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody commits, too: a worker that has caught up cleans most."""
    create(log, retention_bytes=1)
    log.create(Topic("u", 1))
    for topic in ("t", "u"):
        for _ in range(60):
            log.append(TopicPartition(topic, 0), rows(os.urandom(900_000)))
    checkpointed(log)
    monkeypatch.setattr(checkpoints, "EVERY", 1 << 20)
    clock.time += 2000
    idle, sizes = join(log), [0]
    while log.clean(slice_ms=1):
        idle.poll(1, 0.01)
        sizes.append(os.path.getsize(log.path / "log.db-wal"))
    assert values(log) == []
    assert max(sizes) < 12_000_000


def test_a_deletion_that_was_broken_off_is_finished(log: EmbeddedLog) -> None:
    create(log)
    log.append(T0, rows(b"a"))
    with log._database.connection() as connection:
        connection.execute("INSERT INTO deleted_topics (id) SELECT id FROM topics")
        connection.execute("DELETE FROM topics")
    clean(log)
    with log._database.connection() as connection:
        assert connection.execute("SELECT count(*) FROM batches").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM deleted_topics").fetchone() == (0,)


def test_compaction_continues_while_records_come(log: EmbeddedLog, clock: Clock) -> None:
    create(log, cleanup_policy="compact", min_cleanable_dirty_ratio=0)
    log.append(T0, keyed("a1 b1 " * 2000))
    while log.clean(slice_ms=0):
        log.append(T0, keyed("c1 a2"))
        log.delete_before(TopicPartition("t", 0), 1)
    clock.time += 2000
    log.append(T0, keyed("z1 " * 1000))
    clean(log)
    batch = log.read(T0, 1, 10_000)
    assert dict(zip(batch.columns.keys, batch.columns.values, strict=True)) == {
        b"a": b"2",
        b"b": b"1",
        b"c": b"1",
        b"z": b"1",
    }
    assert len(batch.offsets) == 4


def test_a_config_that_is_not_a_number_is_refused_when_the_topic_is_created(log: EmbeddedLog) -> None:
    with pytest.raises(LogError, match=r'config of topic "t" has a value that is not a number: .*7d.*milliseconds'):
        create(log, retention_ms="7d")


def test_with_little_memory_compaction_takes_more_passes(log: EmbeddedLog, clock: Clock) -> None:
    create(log, cleanup_policy="compact", min_cleanable_dirty_ratio=0)
    for _ in range(2):
        keys: list[bytes | None] = [b"%d" % number for number in range(30_000)]
        log.append(T0, Columns(keys, keys, [0] * 30_000))
    reached = []
    for _ in range(8):
        while log.clean(slice_ms=1, memory=1_000_000):
            pass
        clock.time += 2000
        with log._database.connection() as connection:
            reached.append(connection.execute("SELECT compacted FROM partitions").fetchone()[0])
    assert reached[:6] == [10_000, 20_000, 30_000, 40_000, 50_000, 60_000]
    assert len(values(log)) == 30_000


def test_a_record_is_compacted_after_a_day_at_the_latest(log: EmbeddedLog, clock: Clock) -> None:
    """However few there are: the deletion of a person's data does not wait for others."""
    create(log, cleanup_policy="compact")
    log.append(T0, keyed("a1 b1 a2"))
    clock.time += 86_400_000
    clean(log)
    assert values(log) == [b"1", b"1", b"2"]
    clock.time += 1001
    clean(log)
    assert values(log) == [b"1", b"2"]


def test_wiping_leaves_no_bytes_of_deleted_records(log: EmbeddedLog) -> None:
    create(log, cleanup_policy="compact")
    for value in (b"her secret address", None):
        log.append(T0, Columns([b"ann"], [value], [0]))
    log.append(T0, Columns([b"bob"], [b"his address"], [0]))

    def stored() -> bytes:
        return b"".join(file.read_bytes() for file in log.path.iterdir() if file.is_file())

    assert b"her secret" in stored()
    log.compact(T0)
    assert b"her secret" in stored()
    log.wipe()
    assert b"her secret" not in stored()
    assert b"his address" in stored()
    assert values(log) == [None, b"his address"]
