"""Transactional ids that outlive a worker: its replacement on this machine ends the transaction of the dead one."""

from __future__ import annotations

import fcntl
import os
import tempfile
import uuid
from itertools import count
from pathlib import Path


class TransactionalId:
    """The first id of the group that no other process of this machine uses. It becomes free when this process dies."""

    def __init__(self, group: str) -> None:
        directory = Path(tempfile.gettempdir()) / f"streamtopo-{os.getuid()}"
        directory.mkdir(mode=0o700, exist_ok=True)
        if directory.stat().st_uid != os.getuid():
            directory = Path(tempfile.mkdtemp(prefix="streamtopo-"))
        self._file = next(file for number in count() if (file := _locked(directory / f"{group}-{number}")) is not None)
        known = os.pread(self._file, 64, 0).decode()
        if not known:
            known = uuid.uuid4().hex
            os.pwrite(self._file, known.encode(), 0)
        self.id = f"{group}-{known}"

    def free(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _locked(path: Path) -> int | None:
    file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file
