"""Delta tables: the files of a version and what their rows span, and commits that add and remove files at once."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pyarrow  # type: ignore[import-untyped]
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyarrow.parquet import (  # type: ignore[import-untyped]
    ColumnChunkMetaData,
    FileMetaData,
    read_metadata,
)

from streamtopo.errors import StreamtopoError

LOG = "_delta_log"
_READABLE = {"timestampNtz"}
"""Features of other writers that plain readers of Parquet need not know."""
_TEXT = 64
"""Longer texts are left out of the statistics."""


class DataFile(NamedTuple):
    path: str
    """Relative to the table."""
    size: int
    rows: int
    least: Mapping[str, Any]
    most: Mapping[str, Any]
    """The least and the greatest value of columns; None if they are not known."""


class Version(NamedTuple):
    number: int
    columns: Mapping[str, Any]
    """Spark's and Delta's schema, as JSON."""
    files: list[DataFile]
    numbers: Mapping[str, int | None]
    """The numbers that commits stored, by their names."""


class Change(NamedTuple):
    """What a commit adds and removes."""

    columns: Mapping[str, Any]
    added: list[DataFile]
    removed: list[DataFile]


def version_of(directory: Path, names: Iterable[str] = (), as_of: int | datetime | None = None) -> Version | None:
    """The last version, or that of a number or time; None if there is no table."""
    if not DeltaTable.is_deltatable(str(directory)):
        return None
    with _explained(directory):
        table = DeltaTable(directory)
        if as_of is not None:
            table.load_as_version(as_of)
        if strange := set(table.protocol().reader_features or ()) - _READABLE:
            raise StreamtopoError(f'"{directory}" needs {", ".join(sorted(strange))} of its readers; undo that')
        added = pyarrow.table(table.get_add_actions(flatten=True)).to_pylist()
        numbers = {name: table.transaction_version(name) for name in names}
        return Version(table.version(), json.loads(table.schema().to_json()), list(map(_known, added)), numbers)


def commit(
    directory: Path, before: Version | None, change: Change, numbers: Mapping[str, int], about: Mapping[str, str]
) -> None:
    """Add a version with these numbers, if `before` is still the last one."""
    schema = Schema.from_json(json.dumps(change.columns))
    now = int(time.time() * 1000)
    added = [AddAction(quote(f.path), f.size, {}, now, True, _statistics(f)) for f in change.added]
    noted = CommitProperties(
        custom_metadata=dict(about),
        app_transactions=[Transaction(name, number, now) for name, number in numbers.items()],
        max_commit_retries=0,
    )
    with _explained(directory):
        if before is None:
            create_table_with_add_actions(str(directory), schema, added, commit_properties=noted)
            return
        table = DeltaTable(directory, version=before.number)
        removed = [RemoveAction(quote(f.path), True, now, f.size, {}) for f in change.removed]
        if change.columns != before.columns:
            known = {field["name"] for field in before.columns["fields"]}
            new = [field for field in schema.fields if field.name not in known]
            table.alter.add_columns(new, commit_properties=CommitProperties(max_commit_retries=0))
        table.create_write_transaction([*added, *removed], "append", schema, commit_properties=noted)


def vacuum(directory: Path, hours: int | None = None) -> None:
    """Delete files that no version of the last hours needs; by default those of the table's own property, a week."""
    with _explained(directory):
        DeltaTable(directory).vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)


# -- files


def file_of(directory: Path, path: Path) -> DataFile:
    """A file of Parquet that is not in the table yet."""
    about = read_metadata(path)
    found: dict[str, tuple[Any, Any]] = {}
    for name, (least, most) in _bounds(about):
        if name in found:
            least, most = min(least, found[name][0]), max(most, found[name][1])
        found[name] = least, most
    least, most = ({name: bound[end] for name, bound in found.items()} for end in (0, 1))
    return DataFile(str(path.relative_to(directory)), path.stat().st_size, about.num_rows, least, most)


def _bounds(about: FileMetaData) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The bounds of columns in row groups; nothing of columns that lack them in one."""
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    for place in range(about.num_columns):
        bounds = [_bound(group.column(place)) for group in groups]
        if None not in bounds:
            yield from ((groups[0].column(place).path_in_schema, bound) for bound in bounds if bound)


def _bound(column: ColumnChunkMetaData) -> tuple[Any, Any] | None:
    """None if there is none that every engine understands."""
    try:
        found = column.statistics
        bound = (found.min, found.max) if found is not None and found.has_min_max else None
    except (ValueError, OverflowError):  # a time after the year 9999
        return None
    simple = bound is not None and "." not in column.path_in_schema and all(map(_simple, bound))
    return bound if simple else None


def _simple(value: object) -> bool:
    match value:
        case bool():
            return False
        case float():
            return math.isfinite(value)
        case str():
            return len(value) <= _TEXT
    return isinstance(value, int | date)


def _statistics(file: DataFile) -> str:
    bounds = {"minValues": file.least, "maxValues": file.most}
    return json.dumps({"numRecords": file.rows} | bounds, default=_text_of)


def _text_of(value: date) -> str:
    if not isinstance(value, datetime):
        return value.isoformat()
    return value.replace(tzinfo=None).isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")


def _known(added: Mapping[str, Any]) -> DataFile:
    least, most = (
        {name.removeprefix(end): value for name, value in added.items() if name.startswith(end)}
        for end in ("min.", "max.")
    )
    return DataFile(unquote(added["path"]), added["size_bytes"], added["num_records"] or 0, least, most)


@contextmanager
def _explained(directory: Path) -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise StreamtopoError(f'another process has changed "{directory}" meanwhile; run this again') from error
    except DeltaError as error:
        raise StreamtopoError(f'"{directory}" cannot be used: {str(error).splitlines()[0]}') from error
