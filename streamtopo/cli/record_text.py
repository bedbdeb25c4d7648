"""Records as people read them: lines of text, and a table that grows page by page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime

from streamtopo.cli.record_json import Record
from streamtopo.cli.shapes import NUMBERS, AnyShape, Shapes
from streamtopo.errors import SerdeError

NULL = "null"


def text_of(data: bytes | None, shape: AnyShape = None) -> str:
    """Bytes that are no text are shown as \\x…, as Python writes them."""
    if data is None:
        return NULL
    if shape in NUMBERS:
        try:
            return str(NUMBERS[shape].decode(data))
        except SerdeError:
            pass
    return data.decode("utf-8", "backslashreplace")


class RecordTable:
    """The columns have widths that do not depend on the records, so that each page fits under the one before."""

    def __init__(self, shapes: Shapes) -> None:
        from rich.console import Console

        self._shapes = shapes
        self._console = Console(file=sys.stdout)
        self._headed = False

    def show(self, page: Sequence[Record]) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, expand=True, show_header=not self._headed, header_style="bold", pad_edge=False)
        table.add_column("time", width=23, style="dim")
        table.add_column("partition", width=9, justify="right", style="dim")
        table.add_column("offset", width=8, justify="right", style="dim", overflow="fold")
        table.add_column("key", ratio=1, overflow="fold")
        table.add_column("value", ratio=3, overflow="fold")
        for record in page:
            table.add_row(*map(Text, self._cells(record)))
        self._console.print(table)
        self._headed = True

    def _cells(self, record: Record) -> tuple[str, ...]:
        key, value = text_of(record.key, self._shapes.key), text_of(record.value, self._shapes.value)
        return time_of(record.timestamp), str(record.partition), str(record.offset), _visible(key), _visible(value)


def time_of(timestamp: int) -> str:
    """In the time of this place; as a number where no calendar reaches."""
    try:
        return datetime.fromtimestamp(timestamp / 1000).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(timestamp)


def _visible(text: str) -> str:
    """Nothing in a record may command the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)
