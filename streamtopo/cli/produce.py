"""streamtopo produce: write lines from a file, a pipe or a terminal to a topic."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import IO

import click

from streamtopo.cli.shared.declared_types import (
    DeclaredType,
    DeclaredTypes,
    is_table_in_app,
    text_to_bytes,
    types_in_app,
)
from streamtopo.cli.shared.line_batches import LineBatch, read_batches
from streamtopo.cli.shared.log_access import complete_topic, existing_topic, opened_log
from streamtopo.cli.shared.options import log_option
from streamtopo.cli.shared.record_json import TopicRecord, from_line
from streamtopo.cli.shared.tables import counted
from streamtopo.errors import LogError, SerdeError
from streamtopo.logs import Log, Topic
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from streamtopo.wall_clock import wall_clock

Parse = Callable[[bytes, int], TopicRecord]
"""Makes a record from a line; its timestamp is the given time, in milliseconds, unless the line has one."""
Advance = Callable[[int], object]


def _separator(context: click.Context, parameter: click.Parameter, given: str | None) -> bytes | None:
    if given == "":
        raise click.BadParameter("the separator is empty; give the text between key and value", context, parameter)
    return None if given is None else os.fsencode(given.replace("\\t", "\t"))


@click.command()
@click.argument("topic", shell_complete=complete_topic)
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--key-separator",
    "separator",
    metavar="TEXT",
    callback=_separator,
    help=r"The part of a line before the first TEXT is the key. \t is a tab.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Read each line as a JSON object, in the format of `consume --json`."
)
@click.option("--app", metavar="APP", help="Application whose topology declares the types of keys and values.")
@log_option
def produce(topic: str, file: IO[bytes], separator: bytes | None, as_json: bool, app: str | None, log: str) -> None:
    """Write the lines of FILE, or of standard input, to TOPIC. Each line is a value.

    A record with a key goes to the partition of its key. Records without a key go to all partitions, one after another.

    With --json, each line is an object with a "value", and optionally a "key", a "timestamp" (milliseconds; default:
    now) and "headers" ([{"name": "trace", "value": "text"}]). A string is written as its text, null as null, and other
    JSON, including numbers, as JSON text. "encoding" (of the value) and "key_encoding" select another format:
    "base64", "int" or "float" (8 bytes, like a topology's int and float), "bool", or "json" (a string keeps its
    quotes). "partition" and "offset" are ignored, so the output of `consume --json` can be written again.

    With --app, keys and values are written in the types that APP declares for TOPIC. Write numbers as decimals, text
    and types with your own serde as they are, and everything else as JSON. If a line does not fit, the command ends
    with an error. This line and the later lines are not written.

    \b
    Examples:
      streamtopo produce sentences book.txt
      echo 'ann:{"item": "tea", "price": 2.5}' | streamtopo produce orders --app shop.py --key-separator :
      echo "user-1:signed in" | streamtopo produce events --key-separator :
      streamtopo consume events --json | streamtopo produce copy --json
    """
    if separator is not None and as_json:
        raise click.UsageError("with --json, the key is part of the object; remove --key-separator")
    types = types_in_app(app, topic)
    with opened_log(log) as target, _progress(file) as advance:
        found = existing_topic(target, log, topic, to_write=True)
        writer = _Writer(target, found, types.key, getattr(file, "name", ""))
        parse = _json_object(types) if as_json else _keyed(separator, types) if separator else _value(types)
        for lines in read_batches(file):
            _write_or_say_where(writer, lines, parse, as_json)
            advance(lines.size)
    click.echo(f'{counted(writer.written, "record")} written to "{topic}"')
    if writer.without_key and is_table_in_app(app, topic):
        click.echo(
            f'{counted(writer.without_key, "record")} without a key: {app} reads "{topic}" as a table, which drops '
            'them; write KEY:VALUE with --key-separator :, or {"key": …, "value": …} with --json',
            err=True,
        )


def _json_object(types: DeclaredTypes) -> Parse:
    return lambda line, now: from_line(line, now, types)


def _value(types: DeclaredTypes) -> Parse:
    return lambda line, now: TopicRecord(0, 0, None, _fitting("value", types.value, line), now)


def _fitting(what: str, declared: DeclaredType, text: bytes) -> bytes | None:
    if declared is None:
        return text
    try:
        return text_to_bytes(declared, text)
    except SerdeError as error:
        raise SerdeError(f"the {what} does not fit: {error}") from None


def _keyed(separator: bytes, types: DeclaredTypes) -> Parse:
    def parse(line: bytes, now: int) -> TopicRecord:
        key, found, value = line.partition(separator)
        if not found:
            text = separator.decode(errors="backslashreplace")
            raise SerdeError(f'there is no "{text}" in the line; put it after the key, or give another --key-separator')
        return TopicRecord(0, 0, _fitting("key", types.key, key), _fitting("value", types.value, value), now)

    return parse


def _write_or_say_where(writer: _Writer, lines: LineBatch, parse: Parse, skip_blank: bool) -> None:
    """Write the lines. If the log fails, the error says what was written, so that it is not written twice."""
    first = writer.line + 1
    try:
        _write(writer, lines, parse, skip_blank)
    except LogError as error:
        if not writer.written:
            raise
        raise LogError(
            f"{error}. {counted(writer.written, 'record')} written to the topic: all before line {first}, and some "
            f"of the lines {first} to {writer.line}. Continue with line {first}{writer.rest(first)} instead of "
            "writing all again"
        ) from error.__cause__


def _write(writer: _Writer, lines: LineBatch, parse: Parse, skip_blank: bool) -> None:
    """Write the lines. At a bad line, those before it are written, and the error says where to continue."""
    now = wall_clock()
    records = []
    for line in lines.lines:
        writer.line += 1
        if skip_blank and not line.strip():
            continue
        try:
            records.append(parse(line, now))
        except SerdeError as error:
            writer.write(records)
            raise SerdeError(
                f"line {writer.line}: {error}. {counted(writer.written, 'record')} written before it: fix the line, "
                f"and continue with it{writer.rest(writer.line)}"
            ) from None
    writer.write(records)


class _Writer:
    def __init__(self, log: Log, topic: Topic, key_type: DeclaredType, file: str) -> None:
        self._log = log
        self._topic = topic
        self._key_type = key_type
        self._file = file
        self._turns = count()
        self.written = 0
        self.without_key = 0
        self.line = 0
        """Number of the current line."""

    def write(self, records: list[TopicRecord]) -> None:
        by_partition: dict[int, list[TopicRecord]] = {}
        for record in records:
            by_partition.setdefault(self._partition_of(record), []).append(record)
        for number, rows in sorted(by_partition.items()):
            self._log.append(TopicPartition(self._topic.name, number), _columns(rows))
            self.written += len(rows)
            self.without_key += sum(row.key is None for row in rows)

    def rest(self, first: int) -> str:
        """How to get the lines from `first` on. A pipe cannot be read again."""
        tail = f"tail -n +{first}"
        if os.path.isfile(self._file):
            return f" ({tail} {shlex.quote(self._file)} | streamtopo produce …)"
        return f" (if your program can print the same lines again: … | {tail} | streamtopo produce …)"

    def _partition_of(self, record: TopicRecord) -> int:
        turn = next(self._turns) if record.key is None else 0
        (key,) = [record.key] if self._key_type is None else self._key_type.inner_keys([record.key])
        return partition_of(key, self._topic.partitions, turn)


def _columns(rows: list[TopicRecord]) -> Columns:
    return Columns(
        [row.key for row in rows],
        [row.value for row in rows],
        [row.timestamp for row in rows],
        [row.headers for row in rows] if any(row.headers for row in rows) else None,
    )


@contextmanager
def _progress(file: IO[bytes]) -> Iterator[Advance]:
    """Show a progress bar on standard error if that is a terminal and the size of the input is known."""
    size = _size(file)
    if not size or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=size)
        yield lambda read: progress.advance(task, read)


def _size(file: IO[bytes]) -> int:
    """Return the size in bytes; 0 for pipes and terminals."""
    try:
        return os.fstat(file.fileno()).st_size
    except OSError:
        return 0
