"""Questions between processes of one machine, over sockets in folders of their user."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamtopo.hosting.neighbours import LOCAL, Answering, Neighbours

ANSWERING = """
import signal
from streamtopo.hosting.neighbours import Answering
print(Answering(lambda question: question[::-1]).address, flush=True)
signal.pause()
"""


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("streamtopo neighbour")]


def test_many_threads_ask_at_once_and_nothing_is_left() -> None:
    files = len(os.listdir("/proc/self/fd"))
    answering, neighbours = Answering(lambda question: question[::-1]), Neighbours()
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
    assert (folder.exists(), threads(), len(os.listdir("/proc/self/fd"))) == (False, [], files)


def test_one_that_is_killed_does_not_answer() -> None:
    neighbours = Neighbours()
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
