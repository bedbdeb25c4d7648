"""Questions between processes that share an embedded log, over Unix sockets in directories of their user only.

With these, processes that serve the same port, and so have no address of their own, can query each other.
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
"""Prefix of the addresses; the rest is a path."""
_TIMEOUT = 10.0
"""Seconds to wait for an answer."""
_MAX_IDLE = 8
"""Maximum number of idle connections to each process."""
_FOLDER_PREFIX = "streamtopo-rows-"
"""Prefix of the names of the directories."""
_FOLDER_GRACE = 60.0
"""Seconds for which a new directory may have no listener."""
_PAUSE = 0.1
"""Seconds until the next attempt to accept a connection, if there was no free file descriptor."""


class SocketServer:
    """One thread accepts connections, and each connection has a thread that answers its questions."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        _remove_stale_folders()
        self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))  # accessible to this user only
        self._path = str(self._folder / "rows")
        try:
            self._listener = Listener(self._path, "AF_UNIX", backlog=64)
        except OSError:
            self._folder.rmdir()
            raise
        self._connected: dict[Connection, threading.Thread] = {}
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, name="streamtopo sockets", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return LOCAL + self._path

    def close(self) -> None:
        with self._lock:
            self._closed = True
            threads = list(self._connected.values())
            for connection in self._connected:
                _shut_down(connection)
        with suppress(OSError):
            _connect(self._path).close()  # nothing else wakes up a thread in accept()
        for thread in (self._thread, *threads):
            thread.join(_TIMEOUT)
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
            thread = threading.Thread(target=self._serve, args=(connection,), name="streamtopo socket", daemon=True)
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self._connected[connection] = thread
                thread.start()

    def _serve(self, connection: Connection) -> None:
        try:
            with suppress(OSError, EOFError):
                while True:
                    connection.send_bytes(self._answer(connection.recv_bytes()))
        finally:
            with self._lock:
                del self._connected[connection]
                connection.close()


def _remove_stale_folders() -> None:
    """Remove the directories of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(_FOLDER_PREFIX + "*"):
        with suppress(OSError):
            status = folder.lstat()
            if (
                status.st_uid == os.getuid()
                and time.time() - status.st_mtime > _FOLDER_GRACE
                and not _is_listening(folder)
            ):
                shutil.rmtree(folder)


def _is_listening(folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        one.setblocking(False)  # a stopped process may have a full queue
        try:
            one.connect(str(folder / "rows"))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
    return True


def _shut_down(connection: Connection) -> None:
    """End the connection for a thread that waits for a question; it would not notice a close from another thread."""
    with socket.socket(fileno=os.dup(connection.fileno())) as one, suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


class SocketClient:
    """The client, for any thread. Questions change nothing, so one can be repeated."""

    def __init__(self) -> None:
        self._idle: defaultdict[str, list[Connection]] = defaultdict(list)

    def ask(self, address: str, question: bytes) -> bytes:
        """Return the answer. Raise OSError if there is none."""
        idle = self._idle[address]
        while idle:
            with suppress(ConnectionError, IndexError):  # the process has ended; another one may use the path now
                return self._exchange(idle.pop(), idle, question)
        return self._exchange(_connect(address.removeprefix(LOCAL)), idle, question)

    def keep_only(self, addresses: Container[str]) -> None:
        """Close the idle connections to all other addresses."""
        for address, idle in list(self._idle.items()):
            while idle and address not in addresses:
                with suppress(OSError, IndexError):  # another thread has taken the last one
                    idle.pop().close()

    def close(self) -> None:
        self.keep_only(())

    def _exchange(self, connection: Connection, idle: list[Connection], question: bytes) -> bytes:
        try:
            connection.send_bytes(question)
            answer = connection.recv_bytes()
        except BaseException as error:
            connection.close()
            if isinstance(error, EOFError):
                raise ConnectionResetError("the process is closing") from error
            if isinstance(error, BlockingIOError):
                raise TimeoutError(f"no answer within {_TIMEOUT:g} s") from error
            raise
        if len(idle) < _MAX_IDLE:
            idle.append(connection)
        else:
            connection.close()
        return answer


def _connect(path: str) -> Connection:
    """Connect with timeouts: a stopped process still accepts connections and questions until its queues are full."""
    seconds, rest = divmod(_TIMEOUT, 1)
    retry = struct.pack("ll", int(seconds), int(rest * 1_000_000))
    with socket.socket(socket.AF_UNIX) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, retry)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, retry)
        one.connect(path)
        return Connection(one.detach())
