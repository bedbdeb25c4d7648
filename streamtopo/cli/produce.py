"""streamtopo produce: lines from a file, a pipe or a keyboard into a topic."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import IO

import click

from streamtopo.cli.lines import Lines, batches
from streamtopo.cli.opening import complete_topic, existing, opened
from streamtopo.cli.options import log_option
from streamtopo.cli.record_json import Record, record_of
from streamtopo.cli.tables import counted
from streamtopo.errors import LogError, SerdeError
from streamtopo.logs import Log, Topic
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition

Parse = Callable[[bytes, int], Record]
"""A line and the time now, in milliseconds, to a record."""
Advance = Callable[[int], object]


def _separator(context: click.Context, parameter: click.Parameter, given: str | None) -> bytes | None:
    if given == "":
        raise click.BadParameter("it is empty; name the text between key and value", context, parameter)
    return None if given is None else os.fsencode(given.replace("\\t", "\t"))


@click.command()
@click.argument("topic", shell_complete=complete_topic)
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--key-separator",
    "separator",
    metavar="TEXT",
    callback=_separator,
    help=r"What comes before it, for the first time in a line, is the key; \t is a tab.",
)
@click.option("--json", "as_json", is_flag=True, help="Each line is an object, as `consume --json` prints them.")
@log_option
def produce(topic: str, file: IO[bytes], separator: bytes | None, as_json: bool, log: str) -> None:
    """Write the lines of FILE, or of standard input, into TOPIC: a line is a value.

    Records with a key go to the partition of the key, others to each partition in turn.

    With --json a line is an object: "value", which must be there, and maybe "key", "timestamp" (milliseconds; else
    now) and "headers" ([{"name": "trace", "value": "text"}]). A string is written as its text, null as null, other
    JSON, numbers too, as its own text. "encoding" (of the value) and "key_encoding" choose something else:
    "base64", "int" or "float" (8 bytes, as a topology's int and float), "bool", or "json" (a string keeps its quotes).
    "partition" and "offset" are passed over, so what `consume --json` prints can be written again.

    \b
    Examples:
      streamtopo produce sentences book.txt
      echo "user-1:signed in" | streamtopo produce events --key-separator :
      streamtopo consume events --json | streamtopo produce copy --json
    """
    if separator is not None and as_json:
        raise click.UsageError("with --json the key is in the object; leave --key-separator out")
    with opened(log) as target, _progress(file) as advance:
        writer = _Writer(target, existing(target, log, topic, to_write=True))
        parse = record_of if as_json else _keyed(separator) if separator else _value
        for lines in batches(file):
            _write_or_say_where(writer, lines, parse, as_json)
            advance(lines.size)
    click.echo(f'{counted(writer.written, "record")} written to "{topic}"')


def _value(line: bytes, now: int) -> Record:
    return Record(0, 0, None, line, now)


def _keyed(separator: bytes) -> Parse:
    def parse(line: bytes, now: int) -> Record:
        key, found, value = line.partition(separator)
        if not found:
            text = separator.decode(errors="backslashreplace")
            raise SerdeError(f'there is no "{text}" in it; put it after the key, or name another separator')
        return Record(0, 0, key, value, now)

    return parse


def _write_or_say_where(writer: _Writer, lines: Lines, parse: Parse, skip_blank: bool) -> None:
    """What is in the topic would be there twice if all of it were written again."""
    first = writer.line + 1
    try:
        _write(writer, lines, parse, skip_blank)
    except LogError as error:
        if not writer.written:
            raise
        raise LogError(
            f"{error}. Only go on where it ended: {counted(writer.written, 'record')} went into the topic, all before "
            f"line {first} (tail -n +{first}), and of those from there to line {writer.line} what some partitions got"
        ) from error.__cause__


def _write(writer: _Writer, lines: Lines, parse: Parse, skip_blank: bool) -> None:
    """What comes before a bad line is written, and the error says where to go on."""
    now = time.time_ns() // 1_000_000
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
                f"line {writer.line}: {error}. Before it {counted(writer.written, 'record')} went into the topic: "
                f"mend the line, and go on with it (tail -n +{writer.line})"
            ) from None
    writer.write(records)


class _Writer:
    def __init__(self, log: Log, topic: Topic) -> None:
        self._log = log
        self._topic = topic
        self._turns = count()
        self.written = 0
        self.line = 0
        """The number of the line that is being read."""

    def write(self, records: list[Record]) -> None:
        by_partition: dict[int, list[Record]] = {}
        for record in records:
            by_partition.setdefault(self._partition_of(record), []).append(record)
        for number, rows in sorted(by_partition.items()):
            self._log.append(TopicPartition(self._topic.name, number), _columns(rows))
            self.written += len(rows)

    def _partition_of(self, record: Record) -> int:
        turn = next(self._turns) if record.key is None else 0
        return partition_of(record.key, self._topic.partitions, turn)


def _columns(rows: list[Record]) -> Columns:
    return Columns(
        [row.key for row in rows],
        [row.value for row in rows],
        [row.timestamp for row in rows],
        [row.headers for row in rows] if any(row.headers for row in rows) else None,
    )


@contextmanager
def _progress(file: IO[bytes]) -> Iterator[Advance]:
    """A bar on standard error, where the end is known and somebody looks."""
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
    """In bytes; 0 for pipes and keyboards."""
    try:
        return os.fstat(file.fileno()).st_size
    except OSError:
        return 0
