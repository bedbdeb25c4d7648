"""How listings are shown: a table on a terminal, tab-separated lines in a pipe, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from streamtopo.exact_json import dumps
from streamtopo.models import time_to_json

Row = Mapping[str, Any]
NONE = "-"


def show_json(found: Any) -> None:
    click.echo(shown_json(found))


def shown_json(value: Any) -> str:
    """Numbers that JSON does not have, which stores of floats may, as null."""
    return dumps(value, time_to_json).decode()


def show_rows(rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    """`columns` gives each member of a row its heading."""
    cells = [[cell(row[name]) for name in columns] for row in rows]
    if sys.stdout.isatty():
        _show_table(cells, columns.values())
    else:
        for line in cells:
            click.echo("\t".join(line))


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
