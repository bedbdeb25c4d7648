"""The state of an application on disk: a directory for each task, locked by the process that uses it."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from streamtopo.errors import StoreError, StoreFailed, StoreInUse
from streamtopo.private_directories import make_private

logger = logging.getLogger("streamtopo")

FORMAT = 1
"""The version of the files in a task directory. It is increased when older programs would misread them."""

_FORMAT_FILE = "format.json"
_LONGEST_NAME = 150
_TROUBLES = {
    errno.EROFS: "is on a read-only file system; make it writable, or give --state-dir another place",
    errno.EACCES: "may not be read or written by this user; change its owner, or give --state-dir another place",
    errno.ENOSPC: "is on a full file system; free some space, or give --state-dir another place",
    errno.EDQUOT: "is over its disk quota; free some space, or give --state-dir another place",
    errno.ENOTDIR: "is not a directory; give --state-dir another place",
    errno.EEXIST: "is not a directory; give --state-dir another place",
}


class Holder(NamedTuple):
    """The process that a lock file names; `beat` is when, on the clock since boot, it last showed that it runs."""

    pid: int
    host: str
    beat: float

    @property
    def stopped_for(self) -> float:
        """At least 0, because beats are rounded when they are written."""
        return max(0.0, clock() - self.beat) if self.host == socket.gethostname() else 0.0


class TaskDirectory:
    """One task's directory, ours until it is released or this process ends."""

    def __init__(self, path: Path, lock: int, forget: Callable[[TaskDirectory], None]) -> None:
        self.path = path
        self.rows = path / "rows"
        self._lock = lock
        self._forget = forget

    def release(self) -> None:
        if self._lock >= 0:
            self._forget(self)
            os.close(self._lock)
            self._lock = -1

    def beat(self) -> None:
        _sign(self._lock)


class StateDirectory:
    """The state of one application on this machine.

    A lock ends with its process, in whatever way the process ends. A process that is only suspended keeps its locks. By
    then the log has given its tasks to others, which continue in a new directory next to the locked one.
    """

    def __init__(self, root: str | Path, application: str, *, lease: float = 5.0) -> None:
        self.path = Path(root) / application
        self._lease = lease
        self._held: list[TaskDirectory] = []
        self._beating = threading.Lock()
        self._heart: threading.Thread | None = None

    def open(self, stores: Iterable[str], partition: int) -> TaskDirectory:
        """The directory of the task that has these stores; StoreInUse if its owner is alive."""
        name = task_name(stores, partition)
        with explained(self.path):
            make_private(self.path)
            return self._keep(*self._take(name))

    def has(self, stores: Iterable[str], partition: int) -> bool:
        """Whether there is a directory of the task that has these stores."""
        with explained(self.path):
            return self.path.is_dir() and bool(_versions(self.path, task_name(stores, partition)))

    def tasks(self) -> list[str]:
        """The names of the existing task directories."""
        with explained(self.path):
            return sorted(path.name for path in self.path.iterdir() if path.is_dir()) if self.path.is_dir() else []

    def kept(self) -> list[Path]:
        """The directories of its tasks, including those that were created next to a locked one."""
        found = [self.path / name for name in self.tasks()]
        return [path for path in found if (path / _FORMAT_FILE).is_file()]

    def delete(self) -> None:
        """Delete all of it. If any directory is in use, raise StoreInUse and delete nothing."""
        locks: list[int] = []
        with explained(self.path):
            try:
                for path in self.kept():
                    lock = _lock(path)
                    if lock is None:
                        raise StoreInUse(_refused(path, holder(path)))
                    locks.append(lock)
                for path in self.kept():
                    shutil.rmtree(path)
            finally:
                _unlock(locks)

    def _take(self, name: str) -> tuple[Path, int]:
        """Return a directory and its lock: a free one, or a new one if the owners of the others are suspended."""
        versions = _versions(self.path, name)
        locks = {path: lock for path in versions if (lock := _lock(path)) is not None}
        held = {path: holder(path) for path in versions if path not in locks}
        running = [path for path, owner in held.items() if owner is None or owner.stopped_for < self._lease]
        if running:
            _unlock(locks.values())
            raise StoreInUse(_refused(running[0], held[running[0]]))
        if locks:
            return _newest(locks)
        fresh = self.path / (f"{name}~{_version(versions[-1]) + 1}" if versions else name)
        fresh.mkdir(exist_ok=True)
        for path, owner in held.items():
            logger.warning('"%s" is held by %s, which is stopped; rebuilding it in "%s"', path, _name(owner), fresh)
        lock = _lock(fresh)
        if lock is None:
            raise StoreInUse(_refused(fresh, holder(fresh)))
        return fresh, lock

    def _keep(self, path: Path, lock: int) -> TaskDirectory:
        directory = TaskDirectory(path, lock, self._forget)
        try:
            _check_format(path)
        except BaseException:
            os.close(lock)
            raise
        with self._beating:
            self._held.append(directory)
            if self._heart is None:
                self._heart = threading.Thread(target=self._beat, name="state locks", daemon=True)
                self._heart.start()
        return directory

    def _forget(self, directory: TaskDirectory) -> None:
        with self._beating:
            self._held.remove(directory)

    def _beat(self) -> None:
        while True:
            time.sleep(self._lease / 4)
            with self._beating:
                for directory in self._held:
                    directory.beat()
                if not self._held:
                    self._heart = None
                    return


def task_name(stores: Iterable[str], partition: int) -> str:
    """Named after its stores, not its subtopology's number, which changes with other parts of the topology."""
    joined = "+".join(sorted(stores)) or "no-stores"
    if len(joined) > _LONGEST_NAME:
        joined = f"{joined[:_LONGEST_NAME]}+{sha256(joined.encode()).hexdigest()[:12]}"
    return f"{joined}-{partition}"


def holder(path: Path) -> Holder | None:
    """The process that holds, or last held, the lock of a task directory; None if it is not known."""
    with suppress(OSError, ValueError):
        pid, host, beat = (path / "lock").read_text().split()
        return Holder(int(pid), host, float(beat))
    return None


def clock() -> float:
    """Seconds since boot: the same for all processes, and never set back."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def trouble(path: Path, error: Exception) -> StoreFailed:
    """One clear error for an error of the operating system, which RocksDB may report in its own words."""
    text = str(error)
    for number, meaning in _TROUBLES.items():
        if getattr(error, "errno", None) == number or os.strerror(number) in text:
            return StoreFailed(f'the state directory "{path}" {meaning}')
    advice = "; move it away, and it is rebuilt from its changelogs" if text.startswith("Corruption") else ""
    return StoreFailed(f'the state in "{path}" cannot be used: {text.strip()}{advice}')


@contextmanager
def explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise trouble(path, error) from error


def _versions(root: Path, name: str) -> list[Path]:
    """A task's directory, and those created while the owner of an earlier one was suspended, oldest first."""
    pattern = re.compile(re.escape(name) + r"(~\d+)?")
    return sorted((path for path in root.iterdir() if pattern.fullmatch(path.name)), key=_version)


def _version(path: Path) -> int:
    return int(path.name.partition("~")[2] or 1)


def _lock(path: Path) -> int | None:
    """A descriptor that holds the directory's lock; None if another process has it, or removed the directory."""
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(path / "lock")):
            _sign(lock)
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None


def _unlock(locks: Iterable[int]) -> None:
    for lock in locks:
        os.close(lock)


def _newest(locks: dict[Path, int]) -> tuple[Path, int]:
    """Return the newest copy of a task's state, which was created while the owners of the others were suspended."""
    *others, path = locks
    for other in others:
        logger.warning('removing "%s": it was left by an owner that was stopped, and "%s" is newer', other, path)
        shutil.rmtree(other, ignore_errors=True)
        os.close(locks[other])
    return path, locks[path]


def _check_format(path: Path) -> None:
    file = path / _FORMAT_FILE
    text = file.read_bytes() if file.exists() else b""
    if not text:  # new, or its process died before it wrote the file
        file.write_text(json.dumps({"format": FORMAT}))
        return
    try:
        found = int(json.loads(text)["format"])
    except (ValueError, KeyError, TypeError):
        raise StoreFailed(
            f'"{file}" is damaged; move the directory "{path}" away, and its state is rebuilt from its changelogs'
        ) from None
    if found > FORMAT:
        raise StoreError(
            f'"{path}" was written by a newer streamtopo (format {found}, and this one reads up to {FORMAT}); '
            "upgrade, or move the directory away to have its state rebuilt"
        )


def _sign(lock: int) -> None:
    with suppress(OSError):
        os.pwrite(lock, f"{os.getpid()} {socket.gethostname()} {clock():.3f}\n".ljust(128).encode(), 0)


def _refused(path: Path, owner: Holder | None) -> str:
    return f'"{path}" is in use by {_name(owner)}; stop it, or give this worker another --state-dir'


def _name(owner: Holder | None) -> str:
    return "another process" if owner is None else f"process {owner.pid} on {owner.host}"
