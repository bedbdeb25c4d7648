"""The page of all operators: one line for each, from the first sentence of its docstring."""

from __future__ import annotations

import inspect
import re

import streamtopo
from website.api import members

HEAD = """# Operators

All methods of streams and tables, with a link to their parameters. [Streams](streams.md), [tables](tables.md),
[windows](windows.md) and [joins](joins.md) explain them with examples.
"""
CLASSES = {
    "KStream": "A stream: each record on its own.",
    "KGroupedStream": "What `group_by` and `group_by_key` of a stream return.",
    "TimeWindowedKStream": "What `windowed_by` returns for tumbling, hopping, sliding and unlimited windows.",
    "SessionWindowedKStream": "What `windowed_by` returns for sessions.",
    "CogroupedKStream": "What `cogroup` returns: several grouped streams, for one row.",
    "TimeWindowedCogroupedKStream": "The same, in windows.",
    "SessionWindowedCogroupedKStream": "The same, in sessions.",
    "KTable": "A table: the newest value of each key.",
    "KGroupedTable": "What `group_by` of a table returns.",
}


def operators_page() -> str:
    """Return the page: a table for each class."""
    parts = [HEAD]
    for name, about in CLASSES.items():
        rows = [
            f"| [`{member}`](api/streams.md#{name.lower()}{member}) | {first_sentence(value)} |"
            for member, value in members(getattr(streamtopo, name))
            if not isinstance(value, property)
        ]
        parts += [f"## {name}\n\n{about}\n", "| | |", "|---|---|", *rows, ""]
    return "\n".join(parts)


def first_sentence(thing: object) -> str:
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.?]) ", text)[0].replace("|", "\\|")
