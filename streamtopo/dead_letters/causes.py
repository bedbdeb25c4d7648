"""The causes of the letters of a batch: the few headers that letters are counted and chosen by, column by column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamtopo.dead_letters.families import FAMILIES, NO_FAMILY, Family
from streamtopo.dead_letters.letters import letter_of
from streamtopo.logs import LazyBatch
from streamtopo.processors import Record

Cause = tuple[Any, ...]
"""Exception, node and topic, as bytes or None; then, if the place in the source matters, partition and offset."""
_FIELDS = ("exception", "node", "topic")
_PLACED_FIELDS = (*_FIELDS, "partition", "offset")
_NAMES = {
    fields: {name for family in FAMILIES for field in fields for name in family.names.get(field, ())}
    for fields in (_FIELDS, _PLACED_FIELDS)
}
"""The headers that have these fields."""


def causes_of(batch: LazyBatch, *, placed: bool = False) -> list[Cause]:
    fields = _PLACED_FIELDS if placed else _FIELDS
    columns = batch.headers(_NAMES[fields])
    families = [family for family in FAMILIES if any(name.startswith(family.prefixes) for name in columns)]
    if len(families) > 1:
        return [cause[: len(fields)] for cause in _by_row(batch)]
    family, rows = families[0] if families else NO_FAMILY, len(batch.offsets)
    return list(zip(*(_column(family, field, columns, rows) for field in fields), strict=True))


def _column(family: Family, field: str, columns: Mapping[str, list[bytes | None]], rows: int) -> list[Any]:
    found = [columns[name] for name in family.names.get(field, ()) if name in columns]
    column = found[0] if found else [None] * rows
    if len(found) > 1:
        column = [next((data for data in row if data is not None), None) for row in zip(*found, strict=True)]
    return column if field in _FIELDS else list(map(family.number, column))


def _by_row(batch: LazyBatch) -> list[Cause]:
    """For letters of several families in one batch."""
    causes = []
    for headers in batch.columns().headers or ():
        letter = letter_of(Record(None, None, 0, headers))
        topic, partition = letter.source or (None, None)
        texts = (None if text is None else text.encode() for text in (letter.exception, letter.node, topic))
        causes.append((*texts, partition, letter.offset))
    return causes
