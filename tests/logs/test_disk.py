"""The embedded log and its disk: power cuts, full and read-only disks, damage, and places where it cannot be."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streamtopo.errors import LogError
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.embedded.storage import directory
from tests.logs.records import DONE, NOT_DONE, T0, T1, at, join, rows, settled, values

Mount = Callable[[str], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """A small file system in memory."""
    if os.geteuid():
        pytest.skip("mounting a small disk needs root")
    place = tmp_path / "disk"
    place.mkdir()

    def mounted(options: str) -> Path:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
        return place

    yield mounted
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_takes_nothing_that_was_committed_before_it(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    log = EmbeddedLog(tmp_path / "log")
    log.create(Topic("t", 2))
    member = join(log)
    settled(member)
    wal, sizes = tmp_path / "log" / "log.db-wal", []
    for number in range(20):
        for target in (T0, T1):
            member.send(target, rows(b"%d" % number, os.urandom(rng.randrange(20_000))))
        assert member.commit(at(number + 1, number + 1)).outcome is DONE
        sizes.append(wal.stat().st_size)
    cut = rng.randrange(sizes[0], sizes[-1])
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "log" / "log.db", tmp_path / "copy")
    (tmp_path / "copy" / "log.db-wal").write_bytes(wal.read_bytes()[:cut])
    copy = EmbeddedLog(tmp_path / "copy")
    durable = sum(size <= cut for size in sizes)
    assert join(copy).committed([T0, T1]) == at(durable, durable)
    for part in (T0, T1):
        assert values(copy, part) == values(log, part)[: 2 * durable]
    assert copy.append(T0, rows(b"on")) == 2 * durable + 1
    copy.close()
    log.close()


def test_a_full_disk_stops_commits_and_loses_nothing(mount: Mount) -> None:
    place = mount("size=6m")
    log = EmbeddedLog(place / "log")
    log.create(Topic("t", 2))
    member = join(log)
    settled(member)
    done = 0
    while True:
        member.send(T0, rows(os.urandom(300_000)))
        committed = member.commit(at(done + 1, 0))
        if committed.outcome is not DONE:
            break
        done += 1
    assert committed.outcome is NOT_DONE
    assert "the disk is full; free some space, and run the same command again" in committed.reason
    with pytest.raises(LogError, match="the disk is full"):
        log.append(T1, rows(os.urandom(900_000)))
    assert (log.end(T0), member.committed([T0])) == (done, {T0: (done, "")})
    mount("remount,size=20m")
    assert member.commit(at(done + 1, 0)).outcome is DONE
    assert len(values(log)) == done + 1
    member.leave()
    log.close()
    with closing(EmbeddedLog(place / "log")) as log:
        assert len(values(log)) == done + 1


def test_a_read_only_disk_is_named(mount: Mount) -> None:
    place = mount("size=6m")
    EmbeddedLog(place / "log").close()
    mount("remount,ro")
    with pytest.raises(LogError, match=r'cannot open the log at ".*/log": the directory is read-only'):
        EmbeddedLog(place / "log")
    with pytest.raises(LogError, match=r'cannot create the log at ".*/new": Read-only file system'):
        EmbeddedLog(place / "new")


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p"])
def test_network_file_systems_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts = tmp_path / "mounts"
    share = tmp_path / "my données"
    escaped = str(share).replace(" ", "\\040")
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/x {escaped} {kind} rw 0 0\n")
    monkeypatch.setattr(directory, "MOUNTS", mounts)
    EmbeddedLog(tmp_path / "local").close()
    with pytest.raises(LogError, match=rf"my données is a network file system \({kind}\)"):
        EmbeddedLog(share / "log")
    assert not share.exists()


def test_a_log_is_made_for_its_user_alone(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    EmbeddedLog(tmp_path / "shared").close()
    EmbeddedLog(tmp_path / "new" / "log").close()
    places = ("shared", "new", "new/log")
    assert [oct((tmp_path / place).stat().st_mode & 0o777) for place in places] == ["0o755", "0o700", "0o700"]


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    with pytest.raises(LogError, match=r'cannot open the log at ".*/log": that is a file; name a directory'):
        EmbeddedLog(tmp_path / "log")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    EmbeddedLog(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(
        LogError, match=r"was written by a newer streamtopo \(format 99; this version can read up to 3\)"
    ):
        EmbeddedLog(tmp_path)
