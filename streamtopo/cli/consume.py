"""streamtopo consume: the records of a topic, on a terminal, in a pipe or as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain

import click

from streamtopo.cli.opening import complete_topic, existing, opened
from streamtopo.cli.options import log_option
from streamtopo.cli.reading import Page, everything, first, news
from streamtopo.cli.shapes import Shapes, shapes_of
from streamtopo.logs import Log
from streamtopo.records import TopicPartition

Show = Callable[[Page], None]


@click.command()
@click.argument("topic", shell_complete=complete_topic)
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest record; the default without --follow.")
@click.option("--follow", is_flag=True, help="Wait for new records; alone, show only these.")
@click.option("--max", "most", type=click.IntRange(min=0), metavar="N", help="Stop after so many records.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Read only this partition.")
@click.option("--json", "as_json", is_flag=True, help="Print an object a line, which `produce --json` can write again.")
@click.option("--app", metavar="APP", help="A topology that says which keys and values are numbers.")
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
    """Show the records of TOPIC, oldest first: up to the end that it has now, or with --follow for ever.

    With --follow and without --from-beginning, only new records are shown. Nothing is remembered: no group is joined.

    On a terminal it is a table; in a pipe a line for each record, key, tab, value, with null for what is null.

    With --json a line is an object of key, value, partition, offset, timestamp (milliseconds) and headers. Keys and
    values are JSON where they are JSON, else text, else base64. With --app, those that the topology declares as int,
    float or bool are numbers. "encoding" (of the value) and "key_encoding" tell how to get the bytes back where that
    is not plain: "base64", "int", "float", "bool", or "json" for JSON that is itself a string or null.

    \b
    Examples:
      streamtopo consume sentences
      streamtopo consume word-counts --app apps.wordcount --follow
      streamtopo consume sentences --json --max 10 | jq .value
    """
    shapes = _shapes(app, topic)
    with opened(log) as source:
        partitions = _partitions(source, log, topic, partition)
        _show_all(first(_pages(source, partitions, from_beginning, follow), most), _show(as_json, shapes))


def _shapes(app: str | None, topic: str) -> Shapes:
    if app is None:
        return Shapes()
    from streamtopo.engine.loading import load_topology

    return shapes_of(load_topology(app), topic)


def _partitions(source: Log, log: str, topic: str, number: int | None) -> list[TopicPartition]:
    count = existing(source, log, topic).partitions
    if number is not None and number >= count:
        raise click.BadParameter(f'topic "{topic}" has the partitions 0 to {count - 1}', param_hint="--partition")
    return [TopicPartition(topic, one) for one in (range(count) if number is None else [number])]


def _pages(log: Log, partitions: list[TopicPartition], from_beginning: bool, follow: bool) -> Iterator[Page]:
    ends = {partition: log.end(partition) for partition in partitions}
    old = everything(log, partitions, ends) if from_beginning or not follow else iter(())
    return chain(old, news(log, dict(ends))) if follow else old


def _show_all(pages: Iterator[Page], show: Show) -> None:
    try:
        for page in pages:
            show(page)
    except BrokenPipeError:
        # Whoever read has seen enough. Python would complain about the rest when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(as_json: bool, shapes: Shapes) -> Show:
    if as_json:
        return _json_lines(shapes)
    return _table(shapes) if sys.stdout.isatty() else _lines(shapes)


def _json_lines(shapes: Shapes) -> Show:
    from streamtopo.cli.record_json import line_of

    return lambda page: _write("".join(f"{line_of(record, shapes)}\n" for record in page))


def _lines(shapes: Shapes) -> Show:
    from streamtopo.cli.record_text import text_of

    return lambda page: _write(
        "".join(f"{text_of(one.key, shapes.key)}\t{text_of(one.value, shapes.value)}\n" for one in page)
    )


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()


def _table(shapes: Shapes) -> Show:
    from streamtopo.cli.record_text import RecordTable

    return RecordTable(shapes).show
