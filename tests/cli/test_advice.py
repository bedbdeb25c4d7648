"""The commands and options that messages, help texts and docs advise exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from streamtopo.cli import main

ROOT = Path(__file__).parents[2]
OTHERS = {"--full-trace", "--help", "--version"}
"""Options of pytest, and of every command."""
COMMAND = re.compile(r"streamtopo ([a-z]+\b[^`;,()\n\"]*)")


def text_of(node: ast.AST) -> str:
    """A string as users see it; X is what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def messages() -> Iterator[tuple[str, str]]:
    """Yield all strings of our code, also help texts, and the module they are in."""
    for path in sorted((ROOT / "streamtopo").rglob("*.py")):
        tree = ast.parse(path.read_text())
        inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if id(node) not in inner and (text := text_of(node)):
                yield path.relative_to(ROOT).as_posix(), text


def advised() -> Iterator[tuple[str, str]]:
    for module, text in messages():
        for found in COMMAND.finditer(text):
            first = found[1].partition(" ")[0]
            if first not in WORDS and not first.endswith(":"):  # as in the docstrings of the modules of commands
                yield module, found[1]


WORDS = {"did", "embedded", "import", "may", "meets", "or", "with", "without"}
"""What follows the name of the program in sentences, and in code."""
WORDS |= {"closing", "engine", "poller", "producer", "socket", "sockets", "web"}  # in names of threads and files
ADVISED = sorted(set(advised()))


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words begin with, and the words after it."""
    command: click.Command = main
    while isinstance(command, click.Group):
        assert words, "a command of a group is missing"
        assert words[0] in command.commands, f'there is no command "{words[0]}"'
        command, words = command.commands[words[0]], words[1:]
    return command, words


def options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def test_some_commands_are_advised() -> None:
    assert len(ADVISED) > 50


@pytest.mark.parametrize(("module", "advice"), ADVISED, ids=lambda text: text[:60])
def test_an_advised_command_exists_with_its_options(module: str, advice: str) -> None:
    command, words = command_of([word.rstrip(":.") for word in advice.split()])
    named = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
    assert named - options_of(command) == set()


def test_each_option_that_is_named_exists() -> None:
    known = set(OTHERS)
    groups: list[click.Command] = [main]
    for command in groups:
        known |= options_of(command)
        groups += command.commands.values() if isinstance(command, click.Group) else []
    unknown = {
        (module, option)
        for module, text in messages()
        if not module.startswith(("streamtopo/broker", "streamtopo/spark/reports"))  # of Kafka's tools, and of CSS
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)
        if option not in known
    }
    assert unknown == set()
