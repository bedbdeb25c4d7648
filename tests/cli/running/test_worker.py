"""streamtopo worker: signals, failures, several processes, the demo, and its output."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from tests.cli.workers import (
    PATIENCE,
    ROOT,
    Running,
    alive,
    application,
    committed,
    log_of,
    outputs,
    send,
    until,
)

Start = Callable[..., Running]
NEVER = ("--commit-interval", "1h", "--commit-pause", "1h")
"""A commit interval in which only the end commits."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Running] = []

    def begin(*arguments: str) -> Running:
        started.append(Running(tmp_path, *arguments))
        return started[-1]

    yield begin
    for one in started:
        one.kill()


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_commits_and_exits_with_0(number: int, processes: str, tmp_path: Path, start: Start) -> None:
    with closing(log_of(tmp_path)) as log:
        running = start(application(tmp_path, "print('seen', flush=True)"), "--processes", processes, *NEVER)
        until(lambda: shares(log) == [2 // int(processes)] * int(processes))
        send(log, "abcd")
        until(lambda: running.said.count("seen") == 4)
        assert committed(log) == 0
        os.killpg(running.process.pid, number)
        assert running.end() == (0, "")
        assert outputs(log) == {"a": [1], "b": [1], "c": [1], "d": [1]}
        assert committed(log) == 4
    assert "all results are committed" in running.said


def shares(log: EmbeddedLog) -> list[int]:
    """Return the numbers of partitions of the members."""
    state = log.groups().get("counting")
    return [len(partitions) for partitions in state.members.values()] if state else []


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_signal_that_comes_twice_is_one_signal(processes: str, tmp_path: Path, start: Start) -> None:
    """`timeout` sends it to the process, and to the group."""
    with closing(log_of(tmp_path)) as log:
        send(log, "a")
        look = "print('asleep', flush=True); __import__('time').sleep(1)"
        running = start(application(tmp_path, look), "--processes", processes)
        running.wait_for("asleep")
        for _ in range(3):
            running.process.send_signal(signal.SIGINT)
            time.sleep(0.01)
        assert running.end()[0] == 0
        assert committed(log) == 1


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_exits_immediately(number: int, processes: str, tmp_path: Path, start: Start) -> None:
    with closing(log_of(tmp_path)) as log:
        send(log, "a")
        look = "print('asleep', flush=True); __import__('time').sleep(600)"
        running = start(application(tmp_path, look), "--processes", processes)
        running.wait_for("asleep")
        children = running.children()
        until(lambda: signalled(running, number))
        assert running.end() == (128 + number, "")
        until(lambda: not any(map(alive, children)), 10)
        assert committed(log) == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_hanging_step_delays_the_exit_up_to_the_limit(processes: str, tmp_path: Path, start: Start) -> None:
    with closing(log_of(tmp_path)) as log:
        send(log, "a")
        look = "print('asleep', flush=True); __import__('time').sleep(600)"
        running = start(application(tmp_path, look), "--processes", processes, "--close-timeout", "500ms")
        running.wait_for("asleep")
        children = running.children()
        running.process.terminate()
        code, said = running.end()
        until(lambda: not any(map(alive, children)), 10)
        assert committed(log) == 0
    assert code == 1
    assert "still running 0.5 s after the signal; ending without a commit" in running.said + said


def signalled(running: Running, number: int) -> bool:
    """Send another signal; return true when the process has ended."""
    with suppress(ProcessLookupError):
        os.killpg(running.process.pid, number)
    with suppress(subprocess.TimeoutExpired):
        running.process.wait(0.1)
    return running.process.poll() is not None


@pytest.mark.parametrize("processes", ["1", "3"])
def test_a_failing_task_exits_with_1_and_one_message(processes: str, tmp_path: Path, start: Start) -> None:
    with closing(log_of(tmp_path, partitions=1)) as log:
        send(log, "ab")
        running = start(application(tmp_path, "assert value == 'y', 'only y here'"), "--processes", processes)
        code, said = running.end()
    assert code == 1
    assert said.count("\nError: ") == said.count("Traceback") == 1
    assert re.search(r'File ".*/counting.py", line 5, in look\n +assert value == ', said)
    failed = (
        r"\(look, counting.py:4\) failed on in/0 offset 0: AssertionError\('only y here'\); the record's key is 'a'"
    )
    assert re.search(rf'\nError: step ".*" {failed}', said)
    assert "streamtopo/engine" not in said


def test_skipped_records_are_logged(tmp_path: Path, start: Start) -> None:
    with closing(log_of(tmp_path)) as log:
        send(log, "ab")
        running = start(application(tmp_path, "assert False"), "--on-error", "skip")
        until(lambda: committed(log) == 2)
        running.wait_for("skipped: step")
        running.interrupt()
        assert running.end() == (0, "")
        assert outputs(log) == {}


def test_a_killed_process_is_replaced_and_every_record_counts_once(tmp_path: Path, start: Start) -> None:
    keys = [f"k{number % 60}" for number in range(3000)]
    with closing(log_of(tmp_path, partitions=6)) as log:
        running = start(application(tmp_path), "--processes", "3", "--cache", "0", "--chunk", "100")
        for part in range(4):
            send(log, keys)
            until(partial(has_committed_more, log, part * len(keys)))
            os.kill(running.children()[part % 3], signal.SIGKILL)
            until(partial(has_been_replaced, running, part + 1))
        until(lambda: committed(log) == 4 * len(keys))
        running.interrupt()
        assert running.end() == (0, "")
        assert outputs(log) == {key: [*range(1, 201)] for key in keys}


def has_been_replaced(running: Running, times: int) -> bool:
    said = running.said.count("is gone (killed by SIGKILL); another one takes its place")
    return said == times and len(running.children()) == 3


def has_committed_more(log: EmbeddedLog, records: int) -> bool:
    return committed(log) > records


def test_the_processes_die_with_their_parent(tmp_path: Path, start: Start) -> None:
    with closing(log_of(tmp_path, partitions=3)):
        running = start(application(tmp_path), "--processes", "3")
        running.wait_for("3 tasks running")
        children = running.children()
        assert len(children) == 3
        os.kill(running.process.pid, signal.SIGKILL)
        until(lambda: not any(map(alive, children)), 5)


def test_two_workers_on_one_state_directory_share_the_partitions(tmp_path: Path, start: Start) -> None:
    with closing(log_of(tmp_path, partitions=4)) as log:
        first = start(application(tmp_path))
        first.wait_for("4 tasks running")
        send(log, "abcdefgh")
        second = start("counting")
        second.wait_for("2 tasks running")
        first.wait_for("2 tasks running")
        send(log, "abcdefgh")
        until(lambda: committed(log) == 16)
        second.interrupt()
        assert second.end() == (0, "")
        until(lambda: first.said.count("4 tasks running") == 2)
        first.interrupt()
        assert first.end() == (0, "")
        assert outputs(log) == {key: [1, 2] for key in "abcdefgh"}


@pytest.mark.parametrize(("arguments", "partitions"), [((), 4), (("--create-topics", "3"), 3)])
def test_missing_topics_are_created(arguments: tuple[str, ...], partitions: int, tmp_path: Path, start: Start) -> None:
    running = start(application(tmp_path), *arguments)
    running.wait_for(f"{partitions} tasks running")
    running.interrupt()
    assert running.end() == (0, "")
    assert f"new topics   in ({partitions} partitions), out ({partitions} partitions)\n" in running.said
    with closing(EmbeddedLog(tmp_path / ".streamtopo")) as log:
        assert [log.topics()[name].partitions for name in ("in", "out")] == [partitions, partitions]


@pytest.mark.parametrize(
    ("option", "more"),
    [
        (
            "--create-topics=0",
            ", or start with --create-topics 4 (create_topics=4), which creates all that are missing",
        ),
        ("--no-create", ""),
    ],
)
def test_missing_topics_are_refused_all_at_once(option: str, more: str, tmp_path: Path, start: Start) -> None:
    running = start(application(tmp_path), option)
    create = "create them first: streamtopo topics create in out --partitions 4"
    missing = 'source topic "in", sink topic "out" do not exist'
    assert running.end() == (1, f"Error: {missing}; {create}{more}\n")


def test_an_advised_command_is_for_the_same_log(tmp_path: Path, start: Start) -> None:
    running = start(application(tmp_path), "--no-create", "--log", "embedded:else where")
    create = "create them first: streamtopo topics create in out --partitions 4 (with --log 'embedded:else where')"
    assert running.end() == (1, f'Error: source topic "in", sink topic "out" do not exist; {create}\n')


@pytest.mark.parametrize("processes", ["1", "2"])
def test_deleting_a_topic_in_use_is_one_clear_error(processes: str, tmp_path: Path, start: Start) -> None:
    with closing(log_of(tmp_path)) as log:
        running = start(application(tmp_path), "--processes", processes)
        running.wait_for("2 tasks running")
        until(lambda: len(shares(log)) == int(processes))
        log.delete("in")
        code, said = running.end()
        again = "create it again (streamtopo topics create in --partitions 4), and start the worker"
        assert (code, said) == (1, f'Error: source topic "in" was deleted while the worker was running; {again}\n')
        log.create(Topic("in", 2))
        send(log, "a")
        after = start("counting", "--processes", processes)
        until(lambda: outputs(log) == {"a": [1]})
        after.interrupt()
        assert after.end() == (0, "")


def test_records_of_a_new_source_count_as_remaining(tmp_path: Path, start: Start) -> None:
    with closing(log_of(tmp_path)) as log:
        send(log, "a")
        running = start(application(tmp_path))
        until(lambda: outputs(log) == {"a": [1]})
        running.interrupt()
        assert running.end() == (0, "")
        log.create(Topic("more", 1))
        log.append(TopicPartition("more", 0), Columns([None] * 3, [b"x"] * 3, [0] * 3))
    with (tmp_path / "counting.py").open("a") as module:
        module.write('builder.stream("more").for_each(print)\n')
    again = start("counting")
    again.wait_for("reads from   the committed positions, 3 records before the end")
    again.interrupt()
    assert again.end() == (0, "")


# -- the demo


def test_the_demo_needs_no_preparation_and_prints_the_top_words(tmp_path: Path, start: Start) -> None:
    running = start(str(ROOT / "apps/wordcount"), "--demo")
    running.wait_for("top words: ")
    assert re.search(r"top words: (\w+ [\d,]+, ){4}\w+ [\d,]+\n", running.said)
    assert "reads from   the beginning" in running.said
    running.interrupt()
    assert running.end() == (0, "")
    again = start(str(ROOT / "apps/wordcount"), "--demo")
    again.wait_for("reads from   the committed positions")
    again.interrupt()
    assert again.end() == (0, "")


def test_an_application_without_a_demo_is_an_error_with_an_example(tmp_path: Path, start: Start) -> None:
    code, said = start(application(tmp_path), "--demo").end()
    assert code == 1
    assert said.startswith('Error: "counting" has no demo; define one (demo = Demo(feed=')


# -- on a terminal


def test_a_terminal_shows_the_numbers_and_the_top_words(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "streamtopo", "worker", str(ROOT / "apps/wordcount"), "--demo"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
        start_new_session=True,
    )
    os.close(theirs)
    screen = Screen(ours)
    for text in ("application", "wordcount", "records/s", "commit", "top words", "█"):
        screen.wait_for(text)
    os.killpg(process.pid, signal.SIGINT)
    screen.wait_for("stopped after")
    assert process.wait(PATIENCE) == 0
    assert screen.text.rindex("\x1b[?25h") > screen.text.rindex("\x1b[?25l")
    os.close(ours)


class Screen:
    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self.text = ""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.text:
            assert time.monotonic() < deadline, self.text
            if select.select([self._terminal], [], [], 0.1)[0]:
                self.text += os.read(self._terminal, 65536).decode(errors="replace")


def limited(folder: Path, files: str, *arguments: str) -> subprocess.Popen[str]:
    """A worker in a process that may open this many files."""
    command = f'ulimit -n {files} && exec "{sys.executable}" -m streamtopo worker "$@"'
    return subprocess.Popen(
        ["bash", "-c", command, "bash", application(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )


def test_a_worker_with_too_few_open_files_says_so_before_it_fails(tmp_path: Path) -> None:
    log_of(tmp_path, 40).close()
    out, err = (running := limited(tmp_path, "200")).communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert re.search(r"40 more tasks with state on disk need about \d+ open files .* its limit is 200; raise", out)
    assert re.fullmatch(r"Error: 1 more task with state on disk needs about 20\d .*ulimit -n .*more workers\n", err)


def test_a_worker_raises_the_soft_limit_of_open_files(tmp_path: Path) -> None:
    with closing(log_of(tmp_path, 40)) as log:
        send(log, "abc")
        running = limited(tmp_path, "1024 && ulimit -S -n 64")
        until(lambda: committed(log) == 3 or running.poll() is not None)
        running.terminate()
        assert (running.communicate(timeout=PATIENCE)[1], running.returncode) == ("", 0)
        assert outputs(log) == {"a": [1], "b": [1], "c": [1]}
