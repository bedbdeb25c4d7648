"""A page of the docs, used as a reader would: save files, run programs, type commands, and compare the output."""

from __future__ import annotations

import fnmatch
import re
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.docs.terminals import PATIENCE, ROOT, Terminals

ELSEWHERE = ("faust.md", "spark.md")
"""Guides whose examples need what only their own tests have."""
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in ELSEWHERE)]
BROKER = "127.0.0.1:9092"
FENCE = re.compile(r'^(?:<!-- ([^>]+) -->\n)?```(\w+)(?: title="([^"]+)")?.*\n((?:.*\n)*?)```$', re.MULTILINE)
LOOKS = re.compile(r"streamtopo (query|consume|groups|topics list|dlq list)|curl")
"""Commands that may be repeated, until the worker has done what they show."""
DIFFERENT = [
    (re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]"), ""),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?Z?"), "TIME"),
    (re.compile(r"^\d\d:\d\d:\d\d", re.MULTILINE), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r" ?\r?$", re.MULTILINE), ""),
]
"""What differs from run to run, or is only for the eyes."""


class Block(NamedTuple):
    """A fenced block. The comment before it says where it runs, if not everywhere: "kafka", "spark" or "not run"."""

    mark: str
    language: str
    title: str
    code: str


def blocks(page: Path) -> list[Block]:
    return [Block(*(part or "" for part in found.groups())) for found in FENCE.finditer(page.read_text())]


def play(page: Path, folder: Path, marks: Collection[str] = ("",), broker: str = BROKER) -> None:
    """Follow a page in this folder. Its files are saved; other blocks only run with one of these marks."""
    with Terminals(folder) as terminals:
        for block in blocks(page):
            code = terminals.local(block.code).replace(BROKER, broker)
            if "." in block.title:
                (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
                (folder / block.title).write_text(code)
                sys.modules.pop(Path(block.title).stem, None)  # that of another page
            elif block.mark in marks and block.language == "python":
                exec(compile(code, page.name, "exec", dont_inherit=True), {"__name__": "block"})
            elif block.mark in marks and block.language == "console":
                follow(code, block.title, terminals)


def follow(text: str, title: str, terminals: Terminals) -> None:
    """Type the commands. In the first and the third terminal they are left running."""
    for command, expected in commands(text):
        deadline = time.monotonic() + PATIENCE
        if title in ("Terminal 1", "Terminal 3"):
            output = terminals.start(title, command)
            while not shown(f"...{expected}...", output.read_text()):
                assert terminals.running(title), f"$ {command}\n{output.read_text()}"
                assert time.monotonic() < deadline, f"$ {command}\n{output.read_text()}"
                time.sleep(0.05)
        else:
            code, printed = terminals.type(command)
            while code or not shown(expected, printed):
                assert LOOKS.match(command), f"$ {command}\n{printed}"
                assert time.monotonic() < deadline, f"$ {command}\n{printed}"
                code, printed = terminals.type(command)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command after a dollar, and the output that follows it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def shown(expected: str, output: str) -> bool:
    """Compare them; "..." stands for anything, and on a line of its own for any number of lines."""
    pattern = re.sub(r"([\[?*])", r"[\1]", plain(expected))
    pattern = re.sub(r"(^|\n)\.\.\.(\n|$)", "*", pattern).replace("...", "*")
    return fnmatch.fnmatchcase(plain(output), pattern)


def plain(text: str) -> str:
    for pattern, replacement in DIFFERENT:
        text = pattern.sub(replacement, text)
    return text.strip()
