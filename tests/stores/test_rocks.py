"""RocksDB stores and their directories: kills, threads, memory, trust, locks, full disks."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from rocksdict import DbClosedError

from streamtopo.errors import StoreError, StoreInUse
from streamtopo.stores.backends.directory import FORMAT, StateDirectory, TaskDirectory, holder, task_name
from streamtopo.stores.backends.rocks import MemoryBudget, RocksStore, Snapshot, open_rocks
from streamtopo.stores.trust import Facts, Stamp, why_not_trusted

LAST = b"\xff"
DAY = 86_400_000


@contextmanager
def running(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python program in another process, which is killed at the end."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


# -- after a kill

WRITER = r"""
import sys
from streamtopo.stores.backends.rocks import MemoryBudget, RocksStore
store = RocksStore(sys.argv[1], MemoryBudget(1 << 20))
for turn in range(store.position("s") or 0, 1 << 60):
    store.write({b"s\0%d" % (turn % 997): b"%d" % turn * 20, b"s\0total": b"%d" % turn}, {"s": turn + 1})
    if turn % 500 == 0:
        print(turn, flush=True)
"""


def test_after_a_kill_position_and_rows_agree(tmp_path: Path) -> None:
    memory, at = MemoryBudget(1 << 20), []
    for _ in range(6):
        with running(WRITER, tmp_path / "rows") as writer:
            for _ in range(random.randint(1, 12)):
                reached = int(line(writer))
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()
        store = RocksStore(tmp_path / "rows", memory)
        at.append(store.position("s") or 0)
        expected = {b"s\0%d" % (turn % 997): b"%d" % turn * 20 for turn in range(at[-1])}
        if at[-1]:
            expected[b"s\0total"] = b"%d" % (at[-1] - 1)
        assert dict(store.scan(b"", LAST)) == expected
        store.close()
    assert at == sorted(at)
    assert 0 < at[-1] <= reached + 1000


def test_a_kill_loses_rows_and_position_but_a_close_loses_neither(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "rows", MemoryBudget(16 << 20))
    store.write({b"s\0a": b"1"}, {"s": 1})
    as_killed = shutil.copytree(tmp_path / "rows", tmp_path / "copy")
    store.close()
    killed, closed = (RocksStore(path, MemoryBudget()) for path in (as_killed, tmp_path / "rows"))
    assert (killed.position("s"), list(killed.scan(b"", LAST))) == (None, [])
    assert (closed.position("s"), list(closed.scan(b"", LAST))) == (1, [(b"s\0a", b"1")])
    killed.close()
    closed.close()


# -- reading from other threads


def test_a_snapshot_stays_as_it_was(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "rows", MemoryBudget(16 << 20))
    before = {b"s\0%05d" % number: b"old" for number in range(2500)}
    store.write(before, {"s": 1})
    seen: list[object] = []

    def read(rows: Snapshot) -> None:
        seen.append(rows.get_many([b"s\0" + b"00002", b"s\0x", b"s\0" + b"00001", b"t"]))
        seen.append(list(zip(rows.scan(b"", LAST), rows.scan(b"", LAST), strict=True)))
        seen.append(list(rows.scan(b"s\0" + b"00010", b"s\0" + b"00013", reverse=True)))

    with store.snapshot() as rows:
        store.write({b"s\0x": b"new", b"s\0" + b"00001": b"new", b"s\0" + b"00002": None}, {"s": 2})
        store.delete_range(b"s\0" + b"00005", b"s\0" + b"02000")
        reader = threading.Thread(target=read, args=[rows], daemon=True)
        reader.start()
        reader.join()
    pairs = sorted(before.items())
    assert seen == [[b"old", None, b"old", None], list(zip(pairs, pairs, strict=True)), pairs[12:9:-1]]
    assert store.get_many([b"s\0x"]) == [b"new"]
    store.close()


def test_closing_ends_the_readers_and_frees_the_database(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "rows", MemoryBudget(16 << 20))
    store.write({b"s\0%05d" % number: b"" for number in range(5000)}, {})
    with store.snapshot() as rows:
        scan = rows.scan(b"", LAST)
        next(scan)
        store.close()
        for read in (lambda: list(scan), lambda: rows.get_many([b"a"]), lambda: store.get_many([b"a"])):
            with pytest.raises(StoreError, match="close"):
                read()
        RocksStore(tmp_path / "rows", MemoryBudget(16 << 20)).close()


def test_readers_continue_while_the_owner_writes_and_closes(tmp_path: Path) -> None:
    store, done = RocksStore(tmp_path / "rows", MemoryBudget(1 << 20)), threading.Event()
    store.write({b"s\0%03d" % number: b"0" for number in range(300)}, {})
    mixed: list[set[bytes | None]] = []

    def read() -> None:
        while not done.is_set():
            try:
                with store.snapshot() as rows:
                    values = {*rows.get_many([b"s\0" + b"007"]), *(value for _, value in rows.scan(b"", LAST))}
            except StoreError:
                return
            if len(values) != 1:
                mixed.append(values)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(300):
        store.write({b"s\0%03d" % number: b"%d" % turn for number in range(300)}, {})
    store.close()
    done.set()
    for reader in readers:
        reader.join()
    assert mixed == []


# -- memory and files

FILLER = """
import os, sys
from pathlib import Path
from streamtopo.stores.backends.rocks import MemoryBudget, RocksStore
peak = lambda: next(int(l.split()[1]) for l in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in l)
memory = MemoryBudget(12 << 20)
stores = [RocksStore(f"{sys.argv[1]}/{number}", memory) for number in range(3)]
before = peak()
for turn in range(150):
    for store in stores:
        keys = [os.urandom(12) for _ in range(1000)]
        store.get_many(keys)
        store.write({b"s" + key: os.urandom(100) for key in keys}, {})
        if turn % 50 == 49:
            assert sum(1 for _ in store.scan(b"", b"z")) == 1000 * (turn + 1)
print((peak() - before) // 1024, memory.used >> 20)
"""


def test_stores_of_a_process_share_one_budget(tmp_path: Path) -> None:
    with running(FILLER, tmp_path) as filler:
        grown, used = map(int, line(filler).split())
    assert used <= 14
    assert grown < 45


def test_a_reopened_store_shares_the_budget_too(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "rows", MemoryBudget())
    store.write({b"s\0%06d" % number: bytes(90) + b"%d" % number for number in range(20_000)}, {})
    store.close()
    memory = MemoryBudget()
    store, before = RocksStore(tmp_path / "rows", memory), memory.used
    assert len(list(store.scan(b"", LAST))) == 20_000
    assert memory.used - before > 1_000_000
    store.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_opening_and_closing_leaks_no_descriptors(tmp_path: Path) -> None:
    memory, state = MemoryBudget(16 << 20), StateDirectory(tmp_path, "app")
    open_rocks(state.open(["s"], 0), memory).close()
    before = descriptors()
    for turn in range(40):
        store = open_rocks(state.open(["s"], 0), memory)
        store.write({b"s\0%d" % turn: b"1"}, {"s": turn})
        unfinished = [store.scan(b"", LAST), store.scan(b"", LAST, reverse=True)]
        next(unfinished[0])
        store.close()
    assert descriptors() == before


# -- which stores are trusted

KEPT = Stamp(100, "log-1", "topic-1", 1_000_000)
NOW = Facts("log-1", "topic-1", 50, 200, 1_000_000 + DAY, DAY)


@pytest.mark.parametrize(
    "now",
    [
        NOW,
        NOW._replace(start=100),
        NOW._replace(end=100),
        NOW._replace(end=100, now=1_000_000 + 9 * DAY),
        NOW._replace(now=1_000_000 + 9 * DAY, tombstone_retention=None),
        NOW._replace(now=1_000_000 - 59_000),
        NOW._replace(now=1_000_000 + 9 * DAY, cleaned=(100, 2_000_000)),
        NOW._replace(now=1_000_000 + 9 * DAY, cleaned=(150, 999_999)),
    ],
)
def test_a_store_is_trusted(now: Facts) -> None:
    assert why_not_trusted(KEPT, now) is None


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (NOW._replace(log="log-2"), 'it belongs to another log: the store is from "log-1", and this log is "log-2"'),
        (
            NOW._replace(changelog="topic-2"),
            'its changelog topic was recreated: the store is from "topic-1", the topic is now "topic-2"',
        ),
        (
            NOW._replace(layout="rows by hours"),
            "its rows are stored as an older streamtopo did, and the topology wants rows by hours",
        ),
        (NOW._replace(end=99), "it is ahead of its changelog: at offset 100, which ends at 99"),
        (NOW._replace(start=101), "it is behind the start of its changelog: at offset 100, which starts at 101"),
        (
            NOW._replace(now=NOW.now + 1000),
            "it is too old: last written 1 day, 0:00:01 ago, and its changelog keeps deletions for 1 day, 0:00:00",
        ),
        (
            NOW._replace(cleaned=(101, 1_000_000)),
            "it is too old: last written 1 day, 0:00:00 ago, and deletions since then are gone",
        ),
        (
            NOW._replace(now=1_000_000 - 3_600_000),
            "its age is not known: it was last written 1:00:00 ahead of this clock",
        ),
    ],
)
def test_a_store_is_not_trusted(now: Facts, reason: str) -> None:
    assert why_not_trusted(KEPT, now) == reason


def test_a_position_is_stored_with_its_origin_and_the_time_it_was_written(tmp_path: Path) -> None:
    time = [5]
    store = RocksStore(tmp_path / "rows", MemoryBudget(16 << 20), now=lambda: time[0])
    assert store.stamp("s") is None
    store.write({}, {"u": 1})
    store.belongs_to("s", "log", "topic", "by minutes")
    store.write({}, {"s": 3, "t": 4})
    store.close()
    store = RocksStore(tmp_path / "rows", MemoryBudget(16 << 20), now=lambda: time[0])
    time[0] = 6
    store.write({}, {"t": 5, "s": 7})
    assert [store.stamp(name) for name in "stu"] == [
        (7, "log", "topic", 6, "by minutes"),
        (5, "", "", 6, ""),
        (1, "", "", 5, ""),
    ]
    assert list(store.scan(b"", LAST)) == []
    store.close()


def test_rows_and_their_position_are_deleted_together(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "rows", MemoryBudget(16 << 20))
    store.write({b"s\0a": b"1", b"t\0a": b"2"}, {"s": 3, "t": 4})
    store.delete_range(b"s\0", b"s\1", forget="s")
    assert (store.position("s"), store.position("t"), list(store.scan(b"", LAST))) == (None, 4, [(b"t\0a", b"2")])
    store.close()


# -- owners of a directory

HOLDER = """
import sys, time
from streamtopo.stores.backends.directory import StateDirectory
from streamtopo.stores.backends.rocks import MemoryBudget, open_rocks
task = StateDirectory(sys.argv[1], "app", lease=0.4).open(["s"], 0)
store = open_rocks(task, MemoryBudget())
store.write({b"s\\0a": b"1"}, {"s": 1})
print(task.path, flush=True)
time.sleep(60)
"""


def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path, "app", lease=0.4)


def test_a_directory_that_is_in_use_is_refused(tmp_path: Path) -> None:
    with running(HOLDER, tmp_path) as other:
        path = Path(line(other))
        with pytest.raises(StoreInUse) as refused:
            state(tmp_path).open(["s"], 0)
        name = f'"{path}" is in use by process {other.pid} on {os.uname().nodename}; '
        assert str(refused.value) == name + "stop it, or give this worker another --state-dir"
        state(tmp_path).open(["s"], 1).release()
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        task = state(tmp_path).open(["s"], 0)
        assert task.path == path
        task.release()


def test_two_workers_of_one_process_do_not_share_a_directory(tmp_path: Path) -> None:
    task = state(tmp_path).open(["s"], 0)
    with pytest.raises(StoreInUse, match=f"in use by process {os.getpid()} "):
        state(tmp_path).open(["s"], 0)
    task.release()
    task.release()
    state(tmp_path).open(["s"], 0).release()


def test_a_stopped_owner_is_not_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(HOLDER, tmp_path) as other:
        path = Path(line(other))
        os.kill(other.pid, signal.SIGSTOP)
        task = opened_when_free(state(tmp_path))
        assert task.path == path.with_name("s-0~2")
        assert f'"{path}" is held by process {other.pid}' in caplog.text
        store = open_rocks(task, MemoryBudget())
        assert store.position("s") is None
        store.write({b"s\0a": b"2"}, {"s": 2})
        os.kill(other.pid, signal.SIGCONT)
        store.close()
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
    task = state(tmp_path).open(["s"], 0)
    assert (task.path.name, state(tmp_path).tasks()) == ("s-0~2", ["s-0~2"])
    assert f'removing "{path}"' in caplog.text
    store = open_rocks(task, MemoryBudget())
    assert (store.position("s"), store.get_many([b"s\0a"])) == (2, [b"2"])
    store.close()


def opened_when_free(state: StateDirectory) -> TaskDirectory:
    while True:
        with suppress(StoreInUse):
            return state.open(["s"], 0)
        time.sleep(0.01)


def test_the_lock_names_its_owner(tmp_path: Path) -> None:
    task = state(tmp_path).open(["s"], 0)
    owner = holder(task.path)
    assert owner is not None
    assert (owner.pid, owner.host) == (os.getpid(), os.uname().nodename)
    assert 0 <= owner.stopped_for < 60
    task.release()
    assert holder(tmp_path / "nowhere") is None


def test_directories_are_named_after_their_stores() -> None:
    assert task_name(["b", "a"], 3) == "a+b-3"
    assert task_name([], 0) == "no-stores-0"
    long = [f"a-store-with-a-long-name-{number}" for number in range(20)]
    assert task_name(long, 12) == task_name(long[::-1], 12) != task_name(long[1:], 12)
    assert len(task_name(long, 12)) < 200


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    task = state(tmp_path).open(["s"], 0)
    task.release()
    (task.path / "format.json").write_text(f'{{"format": {FORMAT + 1}}}')
    before = descriptors()
    with pytest.raises(StoreError, match=f"written by a newer streamtopo .format {FORMAT + 1}, and .* up to {FORMAT}"):
        state(tmp_path).open(["s"], 0)
    assert descriptors() == before


@pytest.mark.parametrize(
    "text", [b'{"fosmat": 1}', b'{"format": ', b"[1]", b'{"format": null}', b"\xff", b'{"format": "x"}']
)
def test_a_damaged_format_is_named(tmp_path: Path, text: bytes) -> None:
    task = state(tmp_path).open(["s"], 0)
    task.release()
    (task.path / "format.json").write_bytes(text)
    with pytest.raises(
        StoreError, match=r'format\.json" is damaged; move the directory ".*s-0" away, and its state is'
    ):
        state(tmp_path).open(["s"], 0)


def test_state_is_readable_by_its_user_only(tmp_path: Path) -> None:
    task = state(tmp_path / "new").open(["s"], 0)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    task.release()


# -- disks that cannot be written


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", path], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mounting a small disk needs root: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


def fill(store: RocksStore) -> None:
    for turn in range(200):
        store.write({b"s\0%d" % turn: os.urandom(100_000)}, {"s": turn + 1})


def test_a_full_disk_is_one_clear_error_and_nothing_is_lost(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(3 << 20))
    task = state(small_disk).open(["s"], 0)
    store = open_rocks(task, MemoryBudget(4 << 20))
    with pytest.raises(StoreError, match=f'"{task.rows}" is on a full file system; free some space'):
        fill(store)
    store.close()
    ballast.unlink()
    store = open_rocks(state(small_disk).open(["s"], 0), MemoryBudget(4 << 20))
    assert len(list(store.scan(b"", LAST))) == store.position("s")
    store.close()


def test_a_store_on_a_full_disk_is_closed_at_once(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """RocksDB would close it later, with the object, and block the whole process while it waits for room."""
    store = open_rocks(state(small_disk).open(["s"], 0), MemoryBudget())
    store.write({b"s\0a": bytes(1000)}, {"s": 1})
    rows = store._opened()
    fill_disk(small_disk)
    store.close()
    with pytest.raises(DbClosedError):
        rows.get(b"s\0a")
    assert "is on a full file system; free some space" in caplog.text
    (small_disk / "ballast").unlink()
    store = open_rocks(state(small_disk).open(["s"], 0), MemoryBudget())
    assert store.position("s") is None
    store.close()


def fill_disk(disk: Path) -> None:
    with (disk / "ballast").open("wb") as ballast, suppress(OSError):
        while True:
            os.write(ballast.fileno(), bytes(4096))


@pytest.mark.parametrize("existing", [False, True])
def test_no_room_for_a_new_directory(small_disk: Path, existing: bool) -> None:
    if existing:
        open_rocks(state(small_disk).open(["s"], 0), MemoryBudget()).close()
    fill_disk(small_disk)
    before = descriptors()
    with pytest.raises(StoreError, match="is on a full file system; free some space"):
        open_rocks(state(small_disk).open(["s"], 0), MemoryBudget())
    assert descriptors() == before
    (small_disk / "ballast").unlink()
    open_rocks(state(small_disk).open(["s"], 0), MemoryBudget()).close()


def open_store(path: Path) -> RocksStore:
    return RocksStore(path / "app" / "s-0" / "rows", MemoryBudget())


def open_directory(path: Path) -> TaskDirectory:
    return state(path).open(["s"], 0)


@pytest.mark.parametrize("open_it", [open_store, open_directory])
def test_a_read_only_disk(small_disk: Path, open_it: Callable[[Path], object]) -> None:
    open_rocks(state(small_disk).open(["s"], 0), MemoryBudget()).close()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(StoreError, match="is on a read-only file system; make it writable"):
        open_it(small_disk)


def test_a_file_in_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "app").write_text("")
    with pytest.raises(StoreError, match='"{}" is not a directory; give --state-dir'.format(tmp_path / "app")):
        state(tmp_path).open(["s"], 0)


def test_a_damaged_database_is_one_clear_error(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "rows", MemoryBudget())
    store.write({b"s\0a": b"1"}, {"s": 1})
    store.close()
    (tmp_path / "rows" / "CURRENT").write_text("nonsense")
    rebuilt = "move it away, and it is rebuilt from its changelogs"
    with pytest.raises(StoreError, match=rf'the state in ".*rows" cannot be used: Corruption: .*; {rebuilt}'):
        RocksStore(tmp_path / "rows", MemoryBudget())


# -- other threads read while it is closed


def test_a_store_read_by_other_threads_is_flushed_when_it_closes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory, keys = MemoryBudget(8 << 20), [b"s\0%d" % number for number in range(2000)]
    for turn in range(20):
        store = RocksStore(tmp_path / "rows", memory)
        store.write(dict.fromkeys(keys, b"%d" % turn * 50), {"s": turn})
        barrier = threading.Barrier(5)

        def read(store: RocksStore = store, barrier: threading.Barrier = barrier) -> None:
            with suppress(StoreError):
                store.get_many(keys)
                barrier.wait()
                while True:
                    store.get_many(keys)

        readers = [threading.Thread(target=read, daemon=True) for _ in range(4)]
        for one in readers:
            one.start()
        barrier.wait()
        store.close()
        for one in readers:
            one.join()
        again = RocksStore(tmp_path / "rows", memory)
        assert (again.position("s"), again.get_many(keys[:1])) == (turn, [b"%d" % turn * 50])
        again.close()
    assert not caplog.records
