"""Questions between processes of one machine, over sockets in directories of their user."""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from streamtopo import host
from streamtopo.hosting.app import App
from streamtopo.hosting.peers import local_sockets as module
from streamtopo.hosting.peers.local_sockets import LOCAL, SocketClient, SocketServer
from streamtopo.hosting.peers.protocol import answer_bytes
from tests.hosting.conftest import counting

ANSWERING = """
import signal
from streamtopo.hosting.peers.local_sockets import SocketServer
print(SocketServer(lambda question: question[::-1]).address, flush=True)
signal.pause()
"""


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("streamtopo socket")]


def test_many_threads_can_ask_and_nothing_is_left() -> None:
    gc.collect()  # what other tests left behind is not closed in between
    files = len(os.listdir("/proc/self/fd"))
    answering, neighbours = SocketServer(lambda question: question[::-1]), SocketClient()
    folder = Path(answering.address.removeprefix(LOCAL)).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with ThreadPoolExecutor(20) as pool:
        questions = [b"%d" % number * 1000 for number in range(1000)]
        answers = pool.map(lambda question: neighbours.ask(answering.address, question), questions)
        assert list(answers) == [question[::-1] for question in questions]
    answering.close()
    with pytest.raises(OSError, match=r"\w"):
        neighbours.ask(answering.address, b"?")
    neighbours.close()
    assert (folder.exists(), threads()) == (False, [])
    assert len(os.listdir("/proc/self/fd")) <= files


def test_a_killed_process_does_not_answer() -> None:
    neighbours = SocketClient()
    with subprocess.Popen([sys.executable, "-c", ANSWERING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        address = process.stdout.readline().strip()
        assert neighbours.ask(address, b"abc") == b"cba"
        process.send_signal(signal.SIGKILL)
        process.wait()
    for _ in range(2):  # on a connection that was kept, and on another one
        with pytest.raises(OSError, match=r"\w"):
            neighbours.ask(address, b"abc")
    neighbours.close()


def test_directories_of_killed_processes_are_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folders = []
    for _ in range(2):
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        command = [sys.executable, "-c", ANSWERING]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout
            folders.append(Path(process.stdout.readline().strip().removeprefix(LOCAL)).parent)
            process.kill()
    old, new = folders
    working = SocketServer(lambda question: question[::-1])
    at_work = Path(working.address.removeprefix(LOCAL)).parent
    mine = tmp_path / at_work.name.replace("rows", "other")
    mine.mkdir()
    for folder in (old, at_work, mine):
        os.utime(folder, (0, 0))
    SocketServer(lambda question: question).close()
    assert set(tmp_path.iterdir()) == {new, at_work, mine}
    neighbours = SocketClient()
    assert neighbours.ask(working.address, b"abc") == b"cba"
    neighbours.close()
    working.close()


@pytest.mark.parametrize("size", [3, 1_000_000])
def test_a_stopped_process_is_waited_for_once_and_with_a_timeout(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", 0.02)
    neighbours = SocketClient()
    with subprocess.Popen([sys.executable, "-c", ANSWERING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        address = process.stdout.readline().strip()
        process.send_signal(signal.SIGSTOP)
        kept = neighbours._idle[address]
        kept += [module._connect(address.removeprefix(LOCAL)) for _ in range(4)]
        with pytest.raises(TimeoutError, match="no answer within"):
            neighbours.ask(address, b"a" * size)
        assert len(kept) == 3
        for _ in range(100):  # more than the system lets wait for a connection
            with pytest.raises(OSError, match=r"\w"):
                neighbours.ask(address, b"a" * size)
        process.kill()
    neighbours.close()


def test_questions_are_answered_after_file_descriptors_had_run_out() -> None:
    answering = SocketServer(lambda question: question[::-1])
    one = socket.socket(socket.AF_UNIX)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 8, hard))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        one.connect(answering.address.removeprefix(LOCAL))
        time.sleep(0.3)  # the attempts to accept it fail meanwhile
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in taken:
            os.close(number)
    with Connection(one.detach()) as connection:
        connection.send_bytes(b"abc")
        assert connection.recv_bytes() == b"cba"
    answering.close()


def test_a_starting_process_must_be_asked_later(url: str, options: dict[str, Any]) -> None:
    app = host(counting(), url, create_topics=1, **options)
    begun = App(app.topology, app.log, app.config, app.settings)

    def asked(one: App, store: str) -> str:
        question = b'{"store": "%s", "partition": 0, "key": "YQ=="}' % store.encode()
        return answer_bytes(one.stores.local, one.stores.plan, question).decode()

    assert asked(begun, "counts") == '{"refused":"not now"}'
    with app as working:
        working.ready("60s")
        assert asked(working, "counts") == '{"row":null}'
        assert asked(working, "others").startswith('{"error":"UnknownStore: there is no store')
