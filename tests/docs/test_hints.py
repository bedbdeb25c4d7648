"""Commands, options and keywords that messages and help texts of the package advise exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from inspect import signature
from pathlib import Path

import click

import streamtopo
from streamtopo.cli import main
from streamtopo.settings.config import WorkerConfig
from streamtopo.web.application import application

PACKAGE = Path(streamtopo.__file__).parent
OTHERS = {"--node", "--master", "--cluster-id", "--lifeline", "--help", "--soft", "--line"}
"""Options of Java programs, and between our own processes; colours of a page."""


def commands(group: click.Group, name: str = "streamtopo") -> Iterator[tuple[str, click.Command]]:
    for word, command in group.commands.items():
        yield f"{name} {word}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {word}")


COMMANDS = dict(commands(main))
OPTIONS = {name for command in COMMANDS.values() for option in command.params for name in option.opts}


def text_of(node: ast.AST) -> str:
    """Return the fixed parts of an f-string, with "x" for the others."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "x"


def texts() -> Iterator[str]:
    """Yield all strings except docstrings, which are not shown unless they are the help of commands."""
    yield from (command.help or "" for command in COMMANDS.values())
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        unshown = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        unshown |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in unshown:
                yield text_of(node)


def test_options_named_in_messages_exist_and_so_do_their_keywords() -> None:
    named = {option for text in texts() for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)}
    assert len(named) > 50
    assert named - OPTIONS - OTHERS == set()
    keywords = {word for text in texts() for word in re.findall(r"--[a-z-]+(?: \w+)? \(([a-z_]+)=", text)}
    assert len(keywords) > 2
    known = {field.name for field in fields(WorkerConfig)} | signature(application).parameters.keys()
    assert keywords - known == set()


def test_commands_named_in_messages_and_help_exist_and_have_the_options() -> None:
    named = {
        found
        for text in texts()
        for found in re.findall(r"(?:^ +|[:;] |\()(streamtopo (?:[^,;:|>().\n]|\.\b)*)", text, re.M)
    }
    for text in named:
        words = text.split()
        known = max((name for name in COMMANDS if words[: name.count(" ") + 1] == name.split()), key=len, default="")
        assert known, text
        assert not isinstance(COMMANDS[known], click.Group) or len(words) == 2, text
        options = {name for option in COMMANDS[known].params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= options, text
    assert len(named) > 40
