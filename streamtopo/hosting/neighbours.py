"""Questions between processes that share an embedded log, over sockets in folders that only their user can open.

So processes behind one port, which have no address of their own, find each other's rows.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Container
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path

LOCAL = "unix:"
"""What their addresses begin with; the rest is a path."""
_PATIENCE = 10.0
"""Seconds to wait for an answer."""
_KEPT = 8
"""Connections to each process that are kept for the next question."""
_PREFIX = "streamtopo-rows-"
"""Of the folders' names."""
_NEW = 60.0
"""Seconds for which a folder may have no listener yet."""
_PAUSE = 0.1
"""Seconds until the next attempt to accept one, where no descriptor was left."""


class Answering:
    """A thread accepts the others, and each connection has one that answers its questions, one after the other."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        _remove_left()
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))  # for this user alone
        self._path = str(self._folder / "rows")
        try:
            self._listener = Listener(self._path, "AF_UNIX", backlog=64)
        except OSError:
            self._folder.rmdir()
            raise
        self._connected: dict[Connection, threading.Thread] = {}
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, name="streamtopo neighbours", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return LOCAL + self._path

    def close(self) -> None:
        with self._lock:
            self._closed = True
            threads = list(self._connected.values())
            for connection in self._connected:
                _hang_up(connection)
        with suppress(OSError):
            _connected_to(self._path).close()  # nothing else wakes a thread that accepts
        for thread in (self._thread, *threads):
            thread.join(_PATIENCE)
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(_PAUSE)
                continue
            thread = threading.Thread(target=self._see_to, args=(connection,), name="streamtopo neighbour", daemon=True)
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self._connected[connection] = thread
                thread.start()

    def _see_to(self, connection: Connection) -> None:
        try:
            with suppress(OSError, EOFError):
                while True:
                    connection.send_bytes(self._answer(connection.recv_bytes()))
        finally:
            with self._lock:
                del self._connected[connection]
                connection.close()


def _remove_left() -> None:
    """Folders of processes that were killed: nobody listens there any more."""
    for folder in Path(tempfile.gettempdir()).glob(_PREFIX + "*"):
        with suppress(OSError):
            status = folder.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _NEW and not _is_listening(folder):
                shutil.rmtree(folder)


def _is_listening(folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        one.setblocking(False)  # a process that is stopped may have a full queue
        try:
            one.connect(str(folder / "rows"))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
    return True


def _hang_up(connection: Connection) -> None:
    """Who waits for the next question sees the end; a close from another thread would not be noticed."""
    with socket.socket(fileno=os.dup(connection.fileno())) as one, suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


class Neighbours:
    """The other end, for any thread; questions change nothing, so one may be asked twice."""

    def __init__(self) -> None:
        self._idle: defaultdict[str, list[Connection]] = defaultdict(list)

    def ask(self, address: str, question: bytes) -> bytes:
        """OSError if nobody answers there."""
        idle = self._idle[address]
        while idle:
            with suppress(ConnectionError, IndexError):  # the other end is gone, and another may be there
                return self._asked(idle.pop(), idle, question)
        return self._asked(_connected_to(address.removeprefix(LOCAL)), idle, question)

    def forget_others(self, addresses: Container[str]) -> None:
        """Close what is kept for processes that are gone."""
        for address, idle in list(self._idle.items()):
            while idle and address not in addresses:
                with suppress(OSError, IndexError):  # another thread has taken the last one
                    idle.pop().close()

    def close(self) -> None:
        self.forget_others(())

    def _asked(self, connection: Connection, idle: list[Connection], question: bytes) -> bytes:
        try:
            connection.send_bytes(question)
            answer = connection.recv_bytes()
        except BaseException as error:
            connection.close()
            if isinstance(error, EOFError):
                raise ConnectionResetError("it is closing") from error
            if isinstance(error, BlockingIOError):
                raise TimeoutError(f"no answer within {_PATIENCE:g} s") from error
            raise
        if len(idle) < _KEPT:
            idle.append(connection)
        else:
            connection.close()
        return answer


def _connected_to(path: str) -> Connection:
    """A process that is stopped takes connections and questions until its queue is full: no call waits for longer."""
    seconds, rest = divmod(_PATIENCE, 1)
    patience = struct.pack("ll", int(seconds), int(rest * 1_000_000))
    with socket.socket(socket.AF_UNIX) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
        one.connect(path)
        return Connection(one.detach())
