"""streamtopo consume: show the records of a topic as a table, as lines or as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain

import click

from streamtopo.cli.shared.declared_types import DeclaredTypes, types_in_app
from streamtopo.cli.shared.log_access import complete_topic, existing_topic, opened_log
from streamtopo.cli.shared.options import log_option
from streamtopo.cli.shared.topic_reader import Page, follow_from, limited, read_to_ends
from streamtopo.errors import SerdeError
from streamtopo.logs import Log
from streamtopo.records import TopicPartition
from streamtopo.serdes.text import decoded

Show = Callable[[Page], None]


@click.command()
@click.argument("topic", shell_complete=complete_topic)
@click.option(
    "--from-beginning", is_flag=True, help="Start with the oldest record. This is the default without --follow."
)
@click.option("--follow", is_flag=True, help="Wait for new records and show them.")
@click.option("--max", "most", type=click.IntRange(min=0), metavar="N", help="Stop after this many records.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Read only this partition.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line, in the format that `produce --json` reads."
)
@click.option("--app", metavar="APP", help="Application whose topology declares the types of keys and values.")
@log_option
def consume(
    topic: str,
    from_beginning: bool,
    follow: bool,
    most: int | None,
    partition: int | None,
    as_json: bool,
    app: str | None,
    log: str,
) -> None:
    """Show the records of TOPIC, oldest first.

    The command stops at the current end of the topic. With --follow, it shows only new records, until Ctrl-C. Add
    --from-beginning to show the existing records first. The command joins no group and stores no position.

    On a terminal, the records are shown as a table; in a pipe, as one line per record: key, tab, value. A null is shown
    as null.

    With --json, each line is an object with key, value, partition, offset, timestamp (milliseconds) and headers. Keys
    and values are shown as JSON if they are valid JSON, otherwise as text, otherwise in base64. If this is not enough
    to restore the bytes, "encoding" (of the value) and "key_encoding" say how: "base64", "int", "float", "bool", or
    "json" for a JSON string or null.

    With --app, keys and values of the types int, float and bool are shown as numbers. Keys of windows are shown with
    the start and end of the window (not with --json). If a record does not fit the types of APP, it is shown as without
    --app, and standard error names it.

    \b
    Examples:
      streamtopo consume sentences
      streamtopo consume word-counts --app apps.wordcount --follow
      streamtopo consume sentences --json --max 10 | jq .value
    """
    types = types_in_app(app, topic)
    with opened_log(log) as source:
        partitions = _partitions(source, log, topic, partition)
        show = _naming_misfits(topic, types, _show(as_json, types))
        _show_all(limited(_pages(source, partitions, from_beginning, follow), most), show)


def _partitions(source: Log, log: str, topic: str, number: int | None) -> list[TopicPartition]:
    count = existing_topic(source, log, topic).partitions
    if number is not None and number >= count:
        raise click.BadParameter(f'topic "{topic}" has the partitions 0 to {count - 1}', param_hint="--partition")
    return [TopicPartition(topic, one) for one in (range(count) if number is None else [number])]


def _pages(log: Log, partitions: list[TopicPartition], from_beginning: bool, follow: bool) -> Iterator[Page]:
    ends = {partition: log.end(partition) for partition in partitions}
    old = read_to_ends(log, partitions, ends) if from_beginning or not follow else iter(())
    return chain(old, follow_from(log, dict(ends))) if follow else old


def _show_all(pages: Iterator[Page], show: Show) -> None:
    try:
        for page in pages:
            show(page)
    except BrokenPipeError:
        # The reader has closed the pipe. Without this, Python would report an error when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(as_json: bool, types: DeclaredTypes) -> Show:
    if as_json:
        return _json_lines(types)
    return _table(types) if sys.stdout.isatty() else _lines(types)


def _naming_misfits(topic: str, types: DeclaredTypes, show: Show) -> Show:
    def show_page(page: Page) -> None:
        show(page)
        for record in page:
            for what, declared, data in zip(types._fields, types, (record.key, record.value), strict=True):
                if declared is None or data is None:
                    continue
                try:
                    decoded(declared, data)
                except SerdeError as error:
                    place = f"{topic}/{record.partition} offset {record.offset}"
                    click.echo(f"{place}: the {what} does not fit: {error}", err=True)

    return show_page


def _json_lines(types: DeclaredTypes) -> Show:
    from streamtopo.cli.shared.record_json import to_line

    return lambda page: _write("".join(f"{to_line(record, types)}\n" for record in page))


def _lines(types: DeclaredTypes) -> Show:
    from streamtopo.cli.shared.record_text import bytes_to_text

    return lambda page: _write(
        "".join(f"{bytes_to_text(one.key, types.key)}\t{bytes_to_text(one.value, types.value)}\n" for one in page)
    )


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()


def _table(types: DeclaredTypes) -> Show:
    from streamtopo.cli.shared.record_text import RecordTable

    return RecordTable(types).show
