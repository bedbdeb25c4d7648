"""Records as text: as lines, and as a table that grows page by page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress

from streamtopo.cli.shared.declared_types import NUMBERS, DeclaredType, DeclaredTypes
from streamtopo.cli.shared.record_json import TopicRecord
from streamtopo.cli.shared.tables import printable
from streamtopo.errors import SerdeError
from streamtopo.serdes.text import decoded
from streamtopo.settings.times import time_text

NULL = "null"
_NARROW = 72
"""Columns of a terminal below which the rest of a record would leave no room for its key and value."""


def bytes_to_text(data: bytes | None, declared: DeclaredType = None) -> str:
    """Return the text; bytes that are not UTF-8 are shown as \\x…, as in Python. A key with a window is followed by
    the start and the end of the window."""
    if data is None:
        return NULL
    with suppress(SerdeError):  # it does not fit
        if declared is not None and declared.name in NUMBERS:
            return str(declared.decode(data)).lower()  # true and false, as `produce` reads them
        if declared is not None and declared.inner is not None:
            _, start, end = decoded(declared, data)
            key = bytes_to_text(declared.inner_keys([data])[0], declared.inner)
            return f"{key} {time_text(start)}/{time_text(end)}"
    return data.decode("utf-8", "backslashreplace")


class RecordTable:
    """A table whose column widths do not depend on the records, so that all pages are aligned."""

    def __init__(self, types: DeclaredTypes) -> None:
        from rich.console import Console

        self._types = types
        self._console = Console(file=sys.stdout)
        self._headed = False

    def show(self, page: Sequence[TopicRecord]) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, expand=True, show_header=not self._headed, header_style="bold", pad_edge=False)
        narrow = self._console.width < _NARROW
        if not narrow:
            table.add_column("time", width=24, style="dim")
            table.add_column("partition", width=9, justify="right", style="dim")
            table.add_column("offset", width=8, justify="right", style="dim", overflow="fold")
        table.add_column("key", ratio=1, overflow="fold")
        table.add_column("value", ratio=3, overflow="fold")
        for record in page:
            table.add_row(*map(Text, self._cells(record)[-len(table.columns) :]))
        self._console.print(table)
        self._headed = True

    def _cells(self, record: TopicRecord) -> tuple[str, ...]:
        key, value = bytes_to_text(record.key, self._types.key), bytes_to_text(record.value, self._types.value)
        return (
            time_text(record.timestamp),
            str(record.partition),
            str(record.offset),
            printable(key),
            printable(value),
        )
