"""Unusual use: closed streams, and arguments and input of any kind. The result is an answer or one error."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from streamtopo.cli import main
from streamtopo.logs import Log, Topic
from tests.cli.conftest import Run
from tests.cli.test_console import shell

WORDS = r"""
t nope apps.wordcount apps.wordcount:nope sentences counts a:b a=b = 0 -1 1 1.5 1e400 nan 10s -10s 99999999999999d
2026-99-99 0000-01-01 .. / /etc/passwd /proc/self/mem - -- %s {} [1] null ' \ é embedded: embedded:/dev/null
embedded:/proc/x embedded:.streamtopo?y=z memory: kafka:// kafka: cleanup.policy=nope retention.ms=abc
retention.ms=-999999999999999999999 9223372036854775808 999999999999999999999999
""".split()  # noqa: SIM905 - a list of this length is no easier to read
TEXTS = ["", " ", "a b", "a\nb", "\udcff", "x" * 5000, *WORDS]
LINES = [
    b"x",
    b"\xff\xfe",
    b"null",
    b"{}",
    b'{"value": 1}',
    b'{"value": "a", "timestamp": 1e99}',
    b'{"value": "\\ud800"}',
]
INPUTS = [
    b"",
    *LINES,
    b'{"value": "a", "partition": 99}',
    b'{"value": %s}' % (b"9" * 5000),
    b"[" * 100_000,
    b"x" * 3_000_000,
]
BESIDES = {"--verbose", "--follow", "--wait", "--web-port", "--demo"}
"""Options that show tracebacks, wait or serve."""


def commands(group: click.Group, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)
        elif (*names, name) not in {("worker",), ("rollup",), ("reconcile",)} and "broker" not in names:
            yield (*names, name), command


@pytest.mark.parametrize(("names", "command"), list(commands(main)), ids=str)
def test_any_arguments_and_input_end_with_an_answer_or_an_error(
    names: tuple[str, ...], command: click.Command, run: Run, log: Log
) -> None:
    rng = random.Random(" ".join(names))
    for name in ("t", "sentences", "word-counts"):
        log.create(Topic(name, 2))
    for _ in range(40):
        arguments = list(names)
        for parameter in command.params:
            likely = 0.95 if parameter.required else 0.25
            if BESIDES.isdisjoint(parameter.opts) and rng.random() < likely:
                named = [] if isinstance(parameter, click.Argument) else [parameter.opts[0]]
                given = [] if getattr(parameter, "is_flag", False) else [rng.choice(TEXTS)]
                arguments += named + given
        result = run(*arguments, given=rng.choice(INPUTS))
        assert isinstance(result.exception, SystemExit | None), (arguments, result.exception)
        assert result.exit_code in (0, 1, 2), arguments
        assert "Traceback" not in result.stderr, arguments
        assert result.exit_code == 0 or "Error: " in result.stderr, arguments


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str, folder: Path) -> None:
    commands = ("topics create t --partitions 1", "topics list", "produce t", "consume t", "graph apps.wordcount")
    ended = shell(folder, "; ".join(f"streamtopo {command} {closed}" for command in commands))
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("command", ["topics list", "consume t", "--help"])
def test_an_output_that_cannot_be_written_is_one_error(command: str, folder: Path, log: Log) -> None:
    log.create(Topic("t", 1))
    ended = shell(folder, f"echo x | streamtopo produce t > /dev/null; streamtopo {command} > /dev/full")
    assert (ended.returncode, ended.stderr) == (1, "Error: [Errno 28] No space left on device\n")


def test_a_pyproject_that_is_not_text_is_one_error(folder: Path, run: Run) -> None:
    (folder / "pyproject.toml").write_bytes(b"\xff")
    result = run("topics", "list")
    assert result.exit_code == 1
    assert re.fullmatch(r"Error: .*pyproject.toml cannot be read: 'utf-8' codec can't decode .*\n", result.stderr)
