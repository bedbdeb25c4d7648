"""Which members are alive: each holds a kernel lock on a file of its own, and writes heartbeats into it.

The file is eight bytes with the time of the last heartbeat, followed by the address where the member answers queries.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

LEASE = 10.0
"""Seconds without a heartbeat after which a process that still holds its lock counts as stopped."""
UNUSED = 300.0
"""Seconds without a call after which a member writes no more heartbeats: its thread hangs, or forgot the member."""


class MemberFile:
    """The lock is freed at once when the process ends. A thread writes the heartbeats, so a slow step is not a death.

    They are written to the file and not to the database: no transaction, no fsync, and nothing that others must read.
    """

    def __init__(self, members: Path, lease: float, address: str = "") -> None:
        self.id = uuid.uuid4().hex
        self._path = members / self.id
        self._file = _locked(self._path)
        self._used = time.monotonic()
        self._left = threading.Event()
        self._sign(address.encode())
        self._thread = threading.Thread(target=self._show, args=(min(1.0, lease / 10),), daemon=True)
        self._thread.start()

    def used(self) -> None:
        self._used = time.monotonic()

    def leave(self) -> None:
        if not self._left.is_set():
            self._left.set()
            self._thread.join()
            self._path.unlink(missing_ok=True)
            os.close(self._file)

    def _show(self, pause: float) -> None:
        while not self._left.wait(pause):
            if time.monotonic() - self._used < UNUSED:
                self._sign()

    def _sign(self, address: bytes = b"") -> None:
        with suppress(OSError):  # if the disk is full, the file and its lock are enough until the lease ends
            os.pwrite(self._file, _since_boot().to_bytes(8, "big") + address, 0)


def _locked(path: Path) -> int:
    while True:
        file = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file).st_nlink:
            return file
        os.close(file)  # another process has removed the file before it was locked, as that of a dead member


def alive(members: Path, id: str, lease: float) -> bool:
    try:
        file = os.open(members / id, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        signed = os.pread(file, 8, 0)
        return not signed or _since_boot() - int.from_bytes(signed, "big") <= lease * 1000
    else:
        return False
    finally:
        os.close(file)


def address_of(members: Path, id: str) -> str:
    try:
        return (members / id).read_bytes()[8:].decode()
    except FileNotFoundError:
        return ""


def remove_files_of_dead(members: Path) -> None:
    """Files that no process has locked. The file of a stopped process stays."""
    for path in members.iterdir():
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(file)


def _since_boot() -> int:
    """Milliseconds of a clock that is never set, the same in all processes of the machine."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
