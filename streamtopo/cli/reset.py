"""streamtopo reset: make an application start again, at a chosen position of its input."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamtopo.cli.shared.log_access import opened_log
from streamtopo.cli.shared.options import json_option, log_option, worker_option
from streamtopo.cli.shared.parsing import parsed
from streamtopo.cli.shared.tables import show_json, show_rows
from streamtopo.errors import LogError
from streamtopo.records import TopicPartition
from streamtopo.settings.durations import milliseconds
from streamtopo.settings.times import time_of
from streamtopo.wall_clock import wall_clock

if TYPE_CHECKING:
    from streamtopo.engine.topics.reset import Reset, Where

_KILLED_WORKER_TIMEOUT = 60.0
"""Seconds after which every log has noticed that a worker was killed."""
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
Offsets = Mapping[TopicPartition, int]


def _duration(text: str) -> int:
    """Return the milliseconds of a duration such as 90m, or P1DT2H30M as in Kafka's tools."""
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groups()):
        return milliseconds(text)
    days, hours, minutes, seconds = (float(number or 0) for number in match.groups())
    return milliseconds(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("give at least one topic")
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
@click.option("--force", is_flag=True, help="Wait up to a minute until the log has removed workers that were killed.")
@click.option(
    "--input-topics",
    metavar="NAME,…",
    callback=parsed(_names),
    help="Input topics to read again. Default: all.",
)
@click.option(
    "--internal-topics",
    metavar="NAME,…",
    callback=parsed(_names),
    help="Internal topics to delete. Default: all. The others are read again.",
)
@click.option("--to-earliest", is_flag=True, default=None, help="Read from the first record. This is the default.")
@click.option("--to-latest", is_flag=True, default=None, help="Read only records written from now on.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="Read from this offset in each partition.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    callback=parsed(time_of),
    help="Read from this time, such as 2026-01-31T12:00:00Z, or in milliseconds since 1970.",
)
@click.option(
    "--by-duration",
    metavar="SPAN",
    callback=parsed(_duration),
    help="Read from this long ago, such as 90m, 1d or P1DT2H.",
)
@click.option("--shift-by", type=int, metavar="N", help="Skip N records, or read the last N again if N is negative.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    callback=parsed(_offsets),
    help="Read from the offsets in this file, with lines TOPIC,PARTITION,OFFSET.",
)
@worker_option("state_dir", "Directory of the stores on this machine.")
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
    """Make APP start again, at a chosen position of its input.

    The command moves the positions in the input topics, and deletes the internal topics and the stores. It does not ask
    for confirmation; --dry-run shows what it would do. First stop the workers on all machines. Records that the
    application wrote to other topics are kept. Stores on other machines are rebuilt when workers start there.

    \b
    Examples:
      streamtopo reset apps.wordcount --dry-run
      streamtopo reset apps.wordcount --to-datetime 2026-01-31T12:00
      streamtopo reset apps.wordcount --input-topics sentences --shift-by -100
    """
    from streamtopo.engine.loading import load_topology
    from streamtopo.engine.topics.reset import plan_reset, wait_until_unused
    from streamtopo.engine.topics.reset import reset as do_reset
    from streamtopo.stores.backends.directory import StateDirectory

    where = _where(**targets)
    offsets: Offsets = targets["from_file"] or {}
    topology = load_topology(app)
    state = StateDirectory(state_dir, topology.application_id)
    with opened_log(log) as source:
        if not dry_run:
            wait_until_unused(source, topology.application_id, _KILLED_WORKER_TIMEOUT if force else 0)
        topics = input_topics or {partition.topic for partition in offsets}
        plan = plan_reset(topology, source, where, topics, internal_topics or ())
        for missing in sorted(offsets.keys() - {move.partition for move in plan.moves}):
            raise LogError(f"the file names partition {missing}, which is not being reset; fix the file")
        _show(plan, state.kept(), as_json)
        if not dry_run:
            do_reset(topology, source, plan, state)
    outcome = "dry run, nothing was changed" if dry_run else "done; the workers can be started"
    click.echo(f"{topology.application_id}: {outcome}", err=True)


def _where(**targets: Any) -> Where:
    from streamtopo.engine.topics import reset as to

    given = {name: value for name, value in targets.items() if value is not None}
    if len(given) > 1:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{names} cannot be combined; give one of them")
    match given:
        case {"to_latest": _}:
            return to.to_latest
        case {"to_offset": offset}:
            return to.to_offset(offset)
        case {"to_datetime": timestamp}:
            return to.to_time(timestamp)
        case {"by_duration": span}:
            return to.to_time(wall_clock() - span)
        case {"shift_by": records}:
            return to.shift_by(records)
        case {"from_file": offsets}:
            return lambda log, partition, before: offsets.get(partition)
        case _:
            return to.to_earliest


def _show(plan: Reset, state: list[Path], as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"action": "move", "what": str(move.partition), "from": move.before, "to": move.after} for move in plan.moves
    ]
    deleted = [("delete topic", name) for name in plan.topics] + [("delete state", str(path)) for path in state]
    rows += [{"action": action, "what": what, "from": None, "to": None} for action, what in deleted]
    if as_json:
        show_json(rows)
    else:
        show_rows(rows, {name: name for name in ("action", "what", "from", "to")})
