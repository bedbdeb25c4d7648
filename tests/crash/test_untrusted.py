"""Stores that do not fit their changelog are rebuilt, with a warning that gives the reason."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from streamtopo import Processor, ProcessorContext, Record, StreamsBuilder, Topology, Worker, key_value_store
from streamtopo.errors import StoreError
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog, EmbeddedMember
from streamtopo.records import Columns, TopicPartition
from streamtopo.serdes import INT
from streamtopo.stores.backends.rocks import MemoryBudget, RocksStore
from tests.crash.apps import catch_up, check, counting, everything, feed, new_log, parts, replayed, stored, working

CHANGELOG = TopicPartition("crash-counts-changelog", 0)
KEPT = 600_000
"""Milliseconds for which the embedded log keeps deletions in changelogs."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """Yield a log whose 300 numbers were counted, with its state."""
    log = new_log(tmp_path / "log")
    feed(log, 0, 300)
    with working(counting(), log, tmp_path / "state", cache=0):
        pass
    yield log
    log.close()


def test_a_store_of_another_log_is_rebuilt(log: EmbeddedLog, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = new_log(tmp_path / "other")
    feed(other, 0, 200)
    with working(counting(), other, tmp_path / "state", cache=0):
        other_log = f'it belongs to another log: the store is from "{log.id}", and this log is "{other.id}"'
        assert [line for line in caplog.messages if "is rebuilt" in line] == [  # one line for three stores
            f"each store is rebuilt from its changelog: {other_log}. Give each log its own --state-dir"
        ]
    check(other, tmp_path / "state", 200)
    other.close()


def test_a_store_without_a_changelog_is_kept_for_its_own_log_only(
    log: EmbeddedLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with working(remembering(), log, tmp_path / "state"):
        pass
    feed(log, 300, 303)
    with working(remembering(), log, tmp_path / "state"):
        pass
    assert totals_of(log) == [101, 101, 101]
    other = new_log(tmp_path / "other")
    feed(other, 0, 30)
    with working(remembering(), other, tmp_path / "state"):
        assert caplog.text.count('store "seen" starts empty: its rows belong to another log') == 3
    assert totals_of(other) == [10, 10, 10]
    other.close()


class Remember(Processor):
    """Count all records of its partition."""

    def init(self, context: ProcessorContext) -> None:
        self.context, self.seen = context, context.get_state_store("seen")

    def process(self, record: Record) -> None:
        self.seen.put("all", (self.seen.get("all") or 0) + 1)
        self.context.forward(record.with_value(self.seen.get("all")))


def remembering() -> Topology:
    builder = StreamsBuilder("remembering")
    seen = builder.add_state_store(key_value_store("seen", key=str, value=int, logged=False))
    builder.stream("in", value=int).process(Remember, stores=[seen]).to("out", value=int)
    return builder.build()


def totals_of(log: EmbeddedLog) -> list[int]:
    return [INT.decode_column(everything(log, part).values)[-1] for part in parts("out")]


def test_a_store_ahead_of_a_restored_log_is_rebuilt(
    log: EmbeddedLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(tmp_path / "log", tmp_path / "backup")
    feed(log, 300, 600)
    with working(counting(), log, tmp_path / "state", cache=0):
        pass
    before = EmbeddedLog(tmp_path / "backup")
    feed(before, 300, 400)
    with working(counting(), before, tmp_path / "state", cache=0):
        assert caplog.text.count("it is ahead of its changelog: at offset ") == 3
    check(before, tmp_path / "state", 400)
    before.close()


def test_a_store_behind_the_start_of_its_changelog_is_rebuilt(
    log: EmbeddedLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(tmp_path / "state", tmp_path / "old")
    feed(log, 300, 600)
    with working(counting(), log, tmp_path / "state", cache=0):
        pass
    log.delete_before(CHANGELOG, log.end(CHANGELOG) - 3)
    with working(counting(), log, tmp_path / "old", cache=0):
        assert caplog.text.count("it is behind the start of its changelog: at offset ") == 1
    with stored(tmp_path / "old", 0) as rows:
        assert rows == replayed(log, CHANGELOG)


def test_a_store_of_a_recreated_changelog_is_rebuilt(
    log: EmbeddedLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.delete(CHANGELOG.topic)
    feed(log, 300, 330)
    with working(counting(), log, tmp_path / "state", cache=0):
        assert caplog.text.count("its changelog topic was recreated: the store is from ") == 3
    for part in parts(CHANGELOG.topic):
        with stored(tmp_path / "state", part.partition) as rows:
            assert rows == replayed(log, part)
    assert sum(log.end(part) for part in parts(CHANGELOG.topic)) == 30


def test_restoring_across_gaps_in_the_offsets(log: EmbeddedLog, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "state", tmp_path / "old")
    feed(log, 300, 600)
    with working(counting(), log, tmp_path / "state", cache=0):
        pass
    for part in parts(CHANGELOG.topic):
        log.compact(part)
    for state in (tmp_path / "old", tmp_path / "new"):
        with working(counting(), log, state, cache=0):
            pass
        check(log, state, 600)


# -- deletions


class Rows:
    """A topic of one partition read as a table, with a clock that can be moved forward."""

    topic, changelog = TopicPartition("rows", 0), TopicPartition("untrusted-rows-changelog", 0)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.later = 0
        self.log = EmbeddedLog(path / "log", now=self.now)
        self.log.create(Topic("rows", 1))

    def now(self) -> int:
        return time.time_ns() // 1_000_000 + self.later

    def put(self, pairs: Mapping[str, str | None]) -> None:
        keys: list[bytes | None] = [key.encode() for key in pairs]
        values = [value if value is None else value.encode() for value in pairs.values()]
        self.log.append(self.topic, Columns(keys, values, [0] * len(keys)))

    def read(self, state: str, **options: Any) -> dict[str, str]:
        """Return the store's rows after a worker with this state directory has caught up."""
        worker = self.worker(state, **options)
        catch_up(worker)
        (task,) = worker.tasks.values()
        found = dict(task.context.store_view("rows", self.now).all())
        worker.close()
        return found

    def worker(self, state: str, **options: Any) -> Worker:
        def open_store(stores: object, partition: int) -> RocksStore:
            return RocksStore(self.path / state, MemoryBudget(1 << 20), now=self.now)

        return Worker(table(), self.log, open_store, now=self.now, **options)


def table() -> Topology:
    builder = StreamsBuilder("untrusted")
    builder.table("rows", key=str, value=str, name="rows")
    return builder.build()


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    rows = Rows(tmp_path)
    yield rows
    rows.log.close()


def deleted_and_compacted(rows: Rows, after: int) -> None:
    """Leave an old copy of the state, from before a deletion that has been cleaned away if `after` is long."""
    rows.put({"kept": "1", "deleted": "1"})
    assert rows.read("state") == {"deleted": "1", "kept": "1"}
    shutil.copytree(rows.path / "state", rows.path / "old")
    rows.put({"deleted": None, "new": "1"})
    assert rows.read("state") == {"kept": "1", "new": "1"}
    compacted_away(rows, after)


def test_a_deleted_key_does_not_return_with_an_old_copy(rows: Rows, caplog: pytest.LogCaptureFixture) -> None:
    deleted_and_compacted(rows, after=2 * KEPT)
    assert rows.log.read(rows.changelog, 0, 10).columns.keys == [b"kept", b"new"]
    assert rows.read("old") == {"kept": "1", "new": "1"}
    assert "it is too old: last written 0:20:00" in caplog.text
    assert "and deletions since then are gone" in caplog.text


def test_an_old_copy_continues_if_no_deletion_was_cleaned_away(rows: Rows, caplog: pytest.LogCaptureFixture) -> None:
    """For example after a machine was off, when nothing was cleaned."""
    rows.put({"kept": "1", "deleted": "1"})
    rows.read("state")
    shutil.copytree(rows.path / "state", rows.path / "old")
    rows.put({"deleted": None, "new": "1"})
    rows.read("state")
    rows.later += 100 * KEPT
    assert rows.read("old") == {"kept": "1", "new": "1"}
    assert caplog.text == ""


def test_a_changelog_keeps_deletions_as_long_as_configured(rows: Rows) -> None:
    rows.put({"deleted": "1"})
    rows.read("state", keep_deletions="1h")
    assert rows.log.topics()[rows.changelog.topic].config["delete.retention.ms"] == "3600000"
    rows.put({"deleted": None, "other": "1"})
    rows.read("state")
    compacted_away(rows, after=2 * KEPT)
    assert deletions(rows) == 1
    compacted_away(rows, after=6 * KEPT)
    assert deletions(rows) == 0


def test_a_deleted_key_does_not_return_with_the_store_of_a_paused_worker(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was paused so long that its tasks moved, and the key's deletion was written and cleaned away."""
    rows.put({"kept": "1", "deleted": "1"})
    sleeper, write = rows.worker("old"), RocksStore.write
    member = sleeper.member
    assert isinstance(member, EmbeddedMember)

    def sleep(store: RocksStore, *changes: Any, **more: Any) -> None:
        monkeypatch.undo()
        member.evict()
        rows.put({"deleted": None, "new": "1"})
        assert rows.read("state") == {"kept": "1", "new": "1"}
        compacted_away(rows, after=2 * KEPT)
        assert rows.log.read(rows.changelog, 0, 10).columns.keys == [b"kept", b"new"]
        write(store, *changes, **more)

    monkeypatch.setattr(RocksStore, "write", sleep)
    while RocksStore.write is sleep:
        sleeper.run_once(0.001)
    sleeper.abandon()
    assert rows.read("old") == {"kept": "1", "new": "1"}


def test_an_old_copy_that_missed_nothing_is_used(rows: Rows, caplog: pytest.LogCaptureFixture) -> None:
    deleted_and_compacted(rows, after=2 * KEPT)
    assert rows.read("state") == {"kept": "1", "new": "1"}
    assert caplog.text == ""


def test_a_recent_copy_still_reads_the_deletion(rows: Rows, caplog: pytest.LogCaptureFixture) -> None:
    deleted_and_compacted(rows, after=KEPT // 2)
    assert rows.read("old") == {"kept": "1", "new": "1"}
    assert caplog.text == ""


def test_a_gap_at_the_end_is_not_waited_for(rows: Rows) -> None:
    rows.put({"kept": "1", "deleted": "1"})
    rows.put({"deleted": None})
    rows.read("state")
    compacted_away(rows, after=2 * KEPT)
    assert (len(rows.log.read(rows.changelog, 0, 10).offsets), rows.log.end(rows.changelog)) == (1, 2)
    assert rows.read("new") == {"kept": "1"}


@pytest.fixture
def half_restored(rows: Rows) -> Worker:
    """Return a worker that has read a row, but not yet its deletion, which follows a day and a half later."""
    rows.put({"deleted": "1"} | {f"{number}": "1" for number in range(50)})
    rows.read("state")
    rows.later += KEPT * 3 // 2
    rows.put({"deleted": None, "other": "1"})
    rows.read("state")
    worker = rows.worker("new", chunk=10)
    worker.run_once()
    assert [store.done for store in worker.metrics().restoring] == [10]
    return worker


def compacted_away(rows: Rows, after: int) -> None:
    """Clean the row first, and the deletion in a second run this much later."""
    rows.log.compact(rows.changelog)
    rows.later += after
    rows.log.compact(rows.changelog)


def deletions(rows: Rows) -> int:
    return rows.log.read(rows.changelog, 0, 100).columns.values.count(None)


def test_a_deletion_stays_while_a_store_is_restored(
    rows: Rows, half_restored: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    compacted_away(rows, after=KEPT * 3 // 4)
    assert deletions(rows) == 1
    catch_up(half_restored)
    half_restored.close()
    assert "deleted" not in rows.read("new")
    assert caplog.text == ""


def test_a_half_restored_store_continues_while_deletions_are_kept(
    rows: Rows, half_restored: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    half_restored.close()
    compacted_away(rows, after=KEPT * 3 // 4)
    assert "deleted" not in rows.read("new")
    assert caplog.text == ""


def test_a_half_restored_store_is_rebuilt_when_deletions_may_be_gone(
    rows: Rows, half_restored: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    half_restored.close()
    compacted_away(rows, after=KEPT * 5 // 4)
    assert deletions(rows) == 0
    assert "deleted" not in rows.read("new")
    assert 'store "rows" is rebuilt' in caplog.text


def test_restoring_starts_over_when_it_takes_too_long(
    rows: Rows, half_restored: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    compacted_away(rows, after=KEPT * 5 // 4)
    assert deletions(rows) == 0
    catch_up(half_restored)
    half_restored.close()
    assert "deleted" not in rows.read("new")
    assert (
        caplog.text.count('store "rows" is rebuilt from its changelog untrusted-rows-changelog/0: it is too old') == 1
    )


def test_restoring_that_takes_too_long_twice_is_an_error(
    rows: Rows, half_restored: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    compacted_away(rows, after=KEPT * 5 // 4)
    while not caplog.text:
        half_restored.run_once()
    half_restored.run_once()
    rows.log.append(rows.changelog, Columns([b"5"], [None], [0]))
    compacted_away(rows, after=2 * KEPT)
    with pytest.raises(StoreError, match=r'"rows" cannot be restored in time: .* a longer delete\.retention\.ms'):
        catch_up(half_restored)
    half_restored.abandon()
    assert "deleted" not in rows.read("new")


def test_slow_restoring_is_fine_if_nothing_was_compacted_away(
    rows: Rows, half_restored: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    rows.later += 2 * KEPT
    catch_up(half_restored)
    half_restored.close()
    assert caplog.text == ""
    assert "deleted" not in rows.read("new")


def test_large_values_are_restored_in_small_slices(rows: Rows) -> None:
    large = "v" * 9_000_000
    for key in "abcdef":
        rows.put({key: large})
    assert len(rows.read("state")) == 6
    worker = rows.worker("new")
    worker.run_once()
    assert [store.done for store in worker.metrics().restoring] == [2]
    catch_up(worker)
    worker.close()
    assert rows.read("new") == dict.fromkeys("abcdef", large)


# -- what a worker writes itself


def test_a_commits_own_records_are_read_at_once(log: EmbeddedLog, tmp_path: Path) -> None:
    """A worker that owns all tasks does not wait between writing to the repartition topic and reading it."""
    with working(counting(), log, tmp_path / "state", cache=0) as worker:
        feed(log, 300, 301)
        start = time.monotonic()
        while sum(log.end(part) for part in parts("out")) < 301:
            worker.run_once(20)
        assert time.monotonic() - start < 10
    check(log, tmp_path / "state", 301)
