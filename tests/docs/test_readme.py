"""Docs and docstrings are true: examples run, named commands and functions exist, and counts are right."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import takewhile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import streamtopo
from streamtopo.cli import main
from streamtopo.engine.worker.commit import commit

ROOT = Path(__file__).parents[2]
RECORD = (ROOT / "docs/inside/record.md").read_text()
GUARANTEES = (ROOT / "docs/inside/guarantees.md").read_text()
PACKAGE = Path(streamtopo.__file__).parent
WITH_EXAMPLES = [
    ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for file in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in file.read_text()
]


def commands(group: click.Group, path: str = "streamtopo") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table with this first line."""
    lines = page[page.index(heading) :].splitlines()[2:]
    table = takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def functions(file: Path) -> dict[str, int]:
    """Return the number of lines of each function and method."""
    found = {}
    for node in ast.parse(file.read_text()).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        for one in inner:
            if isinstance(one, ast.FunctionDef):
                name = f"{node.name}.{one.name}" if isinstance(node, ast.ClassDef) else one.name
                found[name] = (one.end_lineno or 0) - one.lineno + 1
    return found


def section(file: Path, name: str) -> int:
    """Return the number of lines from one `# -- name` to the next."""
    lines = [line.strip() for line in file.read_text().splitlines()]
    start = lines.index(f"# -- {name}")
    return next((n for n, line in enumerate(lines[start + 1 :], 1) if line.startswith("# -- ")), len(lines) - start)


def lines_to_read(file: Path, what: str) -> int:
    if what == "all":
        return len(file.read_text().splitlines())
    sections = re.findall(r"\*([^*]+)\*", what)
    return sum(section(file, name) for name in sections) + sum(functions(file)[name] for name in quoted(what))


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_the_examples_in_docstrings_run(module: str) -> None:
    failed, attempted = doctest.testmod(import_module(module))
    assert (failed, attempted > 0) == (0, True)


def test_examples_are_found() -> None:
    assert "streamtopo.testing" in WITH_EXAMPLES


@pytest.mark.parametrize(("name", "command"), list(commands(main)))
def test_every_command_has_help_with_an_example_and_is_on_a_page(name: str, command: click.Command) -> None:
    output = CliRunner().invoke(main, [*name.split()[1:], "--help"]).stdout
    assert f"Usage: {main.name} {name.partition(' ')[2]}" in output
    assert re.search(rf'Examples?:\n +(eval "\$\()?{name}[ )]', output)
    assert all(option.help for option in command.params if isinstance(option, click.Option))
    assert any(name in page.read_text() for page in (ROOT / "docs").rglob("*.md"))


def test_the_guarantee_is_the_docstring_of_commit() -> None:
    assert re.findall(r"<!-- commit -->\n(.*?)\n<!-- end -->", GUARANTEES, re.DOTALL) == [inspect.getdoc(commit)]


@pytest.mark.parametrize("row", rows(RECORD, "| | function |"), ids=lambda row: str(row[0]))
def test_the_functions_on_a_records_path_are_where_the_page_says(row: list[str]) -> None:
    files = [ROOT / "streamtopo" / file for file in quoted(row[2])]
    known = set().union(*(functions(file) for file in files))
    assert set(quoted(row[1])) - known == set()


def test_the_path_of_a_record_can_be_read_in_900_lines() -> None:
    table = rows(RECORD, "| file | read |")
    assert sum(lines_to_read(ROOT / quoted(file)[0], what) for file, what in table) < 900


def test_every_guarantee_names_an_existing_test() -> None:
    named = [quoted(test)[0] for _, test in rows(GUARANTEES, "| guarantee | test |")]
    files = [ROOT / "tests" / (name if "/" in name else f"exactness/{name}") for name in named]
    assert [file for file in files if not file.is_file()] == []
