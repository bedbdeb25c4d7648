"""streamtopo reset: an application begins anew, from wherever it is told to."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamtopo.cli.opening import opened
from streamtopo.cli.options import json_option, log_option, worker_option
from streamtopo.cli.tables import show_json, show_rows
from streamtopo.durations import milliseconds
from streamtopo.errors import LogError, StreamtopoError
from streamtopo.records import TopicPartition

if TYPE_CHECKING:
    from streamtopo.engine.reset import Reset, Where

_PATIENCE = 60.0
"""Seconds within which a log finds out that a worker was killed."""
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
Offsets = Mapping[TopicPartition, int]


def _parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    def callback(context: click.Context, parameter: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else parse(text)
        except (ValueError, StreamtopoError) as error:
            raise click.BadParameter(str(error), context, parameter) from error

    return callback


def _time(text: str) -> int:
    """In UTC unless it says otherwise."""
    given = datetime.fromisoformat(text)
    return round((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1000)


def _duration(text: str) -> int:
    """Ours, or Kafka's: P1DT2H30M."""
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groups()):
        return milliseconds(text)
    days, hours, minutes, seconds = (float(number or 0) for number in match.groups())
    return milliseconds(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("it names no topic")
    return names


def _offsets(path: str) -> Offsets:
    with Path(path).open(newline="") as file:
        lines = [line for line in csv.reader(file) if line]
    found = {}
    for line in lines:
        if len(line) != 3 or not line[1].isdigit() or not line[2].isdigit():
            raise ValueError(f"{path} has the line {','.join(line)!r}, which is not TOPIC,PARTITION,OFFSET")
        found[TopicPartition(line[0], int(line[1]))] = int(line[2])
    if not found:
        raise ValueError(f"{path} has no line TOPIC,PARTITION,OFFSET")
    return found


@click.command()
@click.argument("app")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option(
    "--force", is_flag=True, help="Wait up to a minute until the log has given up on workers that were killed."
)
@click.option(
    "--input-topics", metavar="NAME,…", callback=_parsed(_names), help="Those to read again; all of them unless named."
)
@click.option(
    "--internal-topics",
    metavar="NAME,…",
    callback=_parsed(_names),
    help="Delete only these of its own topics; all of them unless named. What stays is read again.",
)
@click.option("--to-earliest", is_flag=True, default=None, help="Read from the first record; this is the default.")
@click.option("--to-latest", is_flag=True, default=None, help="Read only what is written from now on.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="Read from this offset, in each partition.")
@click.option(
    "--to-datetime", metavar="TIME", callback=_parsed(_time), help="Read from this time: 2026-01-31T12:00, in UTC."
)
@click.option(
    "--by-duration", metavar="SPAN", callback=_parsed(_duration), help="Read from so long ago: 90m, 1d or P1DT2H."
)
@click.option("--shift-by", type=int, metavar="N", help="Read so many records again (-N), or leave so many out.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    callback=_parsed(_offsets),
    help="Read from the offsets in this file, with a line TOPIC,PARTITION,OFFSET for each.",
)
@worker_option("state_dir", "Where the stores of this machine lie.")
@log_option
@json_option
def reset(
    app: str,
    dry_run: bool,
    force: bool,
    input_topics: tuple[str, ...] | None,
    internal_topics: tuple[str, ...] | None,
    state_dir: str,
    log: str,
    as_json: bool,
    **targets: Any,
) -> None:
    """Let APP begin anew: move it in its input topics, delete its internal topics and its stores.

    It does not ask; --dry-run shows what it would do. Stop the workers first, on all machines. What the application
    wrote into other topics stays there. Stores on other machines are rebuilt by themselves when workers start there.

    \b
    Examples:
      streamtopo reset apps.wordcount --dry-run
      streamtopo reset apps.wordcount --to-datetime 2026-01-31T12:00
      streamtopo reset apps.wordcount --input-topics sentences --shift-by -100
    """
    from streamtopo.engine.loading import load_topology
    from streamtopo.engine.reset import plan_reset, wait_until_unused
    from streamtopo.engine.reset import reset as do_reset
    from streamtopo.stores.directory import StateDirectory

    where = _where(**targets)
    offsets: Offsets = targets["from_file"] or {}
    topology = load_topology(app)
    state = StateDirectory(state_dir, topology.application_id)
    with opened(log) as source:
        if not dry_run:
            wait_until_unused(source, topology.application_id, _PATIENCE if force else 0)
        topics = input_topics or {partition.topic for partition in offsets}
        planned = plan_reset(topology, source, where, topics, internal_topics or ())
        for missing in sorted(offsets.keys() - {move.partition for move in planned.moves}):
            raise LogError(f"partition {missing} is in the file, and not among those to move; mend the file")
        _show(planned, state.kept(), as_json)
        if not dry_run:
            do_reset(topology, source, planned, state)
    said = "nothing is changed, as this is a dry run" if dry_run else "done; start the workers when you like"
    click.echo(f"{topology.application_id}: {said}", err=True)


def _where(**targets: Any) -> Where:
    from streamtopo.engine import reset as to

    given = {name: value for name, value in targets.items() if value is not None}
    if len(given) > 1:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{names} say different things; give one of them")
    match given:
        case {"to_latest": _}:
            return to.to_latest
        case {"to_offset": offset}:
            return to.to_offset(offset)
        case {"to_datetime": timestamp}:
            return to.to_time(timestamp)
        case {"by_duration": span}:
            return to.to_time(time.time_ns() // 1_000_000 - span)
        case {"shift_by": records}:
            return to.shift_by(records)
        case {"from_file": offsets}:
            return lambda log, partition, before: offsets.get(partition)
        case _:
            return to.to_earliest


def _show(planned: Reset, state: list[Path], as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"action": "move", "what": str(move.partition), "from": move.before, "to": move.after} for move in planned.moves
    ]
    deleted = [("delete topic", name) for name in planned.topics] + [("delete state", str(path)) for path in state]
    rows += [{"action": action, "what": what, "from": None, "to": None} for action, what in deleted]
    if as_json:
        show_json(rows)
    else:
        show_rows(rows, {name: name for name in ("action", "what", "from", "to")})
