"""Prints listings: as a table on a terminal, as tab-separated lines in a pipe, or as JSON."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import click

from streamtopo.serdes.exact_json import dumps
from streamtopo.serdes.json_types import time_to_json

Row = Mapping[str, Any]
NONE = "-"
_PAGE = 500
"""Lines that are read before the first is shown."""
_WIDEST = 60


def show_json(found: Any) -> None:
    click.echo(json_text(found))


def json_text(value: Any) -> str:
    """Return JSON. Numbers that JSON does not have, such as NaN, become null."""
    return dumps(value, time_to_json).decode()


def show_rows(rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    """Print rows; `columns` maps the names of their members to headings."""
    cells = [[cell(row[name]) for name in columns] for row in rows]
    if sys.stdout.isatty():
        _show_table(cells, columns.values())
    else:
        _show_unchanged(cells)


def show_topics(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print rows of topics. On a terminal, each config is below its row, because it is often too long for a column."""
    if not sys.stdout.isatty():
        show_rows(rows, {name: name for name in (*columns, "config")})
        return
    lines = [[cell(row[name]) for name in columns] for row in rows]
    widths = _widths([columns, *lines])
    click.secho(_aligned(columns, widths), bold=True)
    for line, row in zip(lines, rows, strict=True):
        click.echo(_aligned(line, widths))
        if row["config"]:
            click.echo(_indented(cell(row["config"])))


def show_lines(headings: Sequence[str], lines: Iterator[Sequence[str]]) -> None:
    """Print lines as they come. On a terminal, the first ones say how wide the columns are."""
    if not sys.stdout.isatty():
        _show_unchanged(lines)
        return
    shown = ([printable(text).replace("\n", "\\n") for text in line] for line in lines)
    first = list(islice(shown, _PAGE))
    widths = _widths([headings, *first])
    click.secho(_aligned(headings, widths), bold=True)
    for line in chain(first, shown):
        click.echo(_aligned(line, widths))


def _show_unchanged(lines: Iterable[Sequence[str]]) -> None:
    for line in lines:
        click.echo("\t".join(line), color=True)  # else click would remove what looks like colors, also from a key


def _widths(lines: Iterable[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len  # some characters take two columns

    return [min(max(map(cell_len, column)), _WIDEST) for column in zip(*lines, strict=True)]


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    from rich.cells import cell_len

    return "  ".join(text + " " * (width - cell_len(text)) for text, width in zip(line, widths, strict=True)).rstrip()


def printable(text: str) -> str:
    """Escape control characters, so that a record cannot control the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)


def _indented(text: str) -> str:
    return textwrap.fill(
        text,
        shutil.get_terminal_size().columns,
        initial_indent="    ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def cell(value: Any) -> str:
    if value is None or value == {}:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    return str(value)


def counted(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _show_table(cells: Iterable[Iterable[str]], headings: Iterable[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for line in cells:
        table.add_row(*map(Text, line))
    Console(file=sys.stdout).print(table)
