"""streamtopo dlq: list, show, export, replay and purge dead letters."""

from __future__ import annotations

from typing import IO

import click

from streamtopo.cli.shared.failures import Commands
from streamtopo.cli.shared.letter_selection import (
    Letters,
    app_argument,
    at_option,
    dead_letter_topic_option,
    opened_letters,
    place_of,
    selection_options,
)
from streamtopo.cli.shared.letter_text import (
    COLUMNS,
    count_to_row,
    letter_to_json,
    letter_to_lines,
    letter_to_row,
    values_of,
)
from streamtopo.cli.shared.log_access import complete_topic, existing_topic
from streamtopo.cli.shared.options import json_option, log_option
from streamtopo.cli.shared.parsing import parsed
from streamtopo.cli.shared.tables import counted, json_text, show_json, show_rows
from streamtopo.dead_letters.done import read_done
from streamtopo.dead_letters.finding import PlacedLetter, find, find_one
from streamtopo.dead_letters.listing import Count, Listing, list_letters
from streamtopo.dead_letters.purging import plan_purge
from streamtopo.dead_letters.purging import purge as do_purge
from streamtopo.dead_letters.replaying import Targets, plan_replay
from streamtopo.dead_letters.replaying import replay as do_replay
from streamtopo.dead_letters.selection import Place, Selection
from streamtopo.errors import LogError
from streamtopo.settings.durations import milliseconds
from streamtopo.wall_clock import wall_clock


@click.group(cls=Commands)
def dlq() -> None:
    """List, show, export, replay and purge dead letters: records that failed.

    They are in the topic dlq.<application id> of APP, or in another one with --dead-letter-topic. It may have been
    written by Kafka Streams, Kafka Connect or Spring Kafka, too. If there is no application, give - for APP.
    """


@dlq.command("list")
@app_argument
@selection_options
@click.option("--replayed", "again", is_flag=True, help="Include letters that were replayed.")
@click.option(
    "--max", "most", type=click.IntRange(min=0), default=20, show_default=True, metavar="N", help="Newest letters."
)
@dead_letter_topic_option
@log_option
@json_option
def list_command(
    app: str, selection: Selection, again: bool, most: int, dead_letter_topic: str | None, log: str, as_json: bool
) -> None:
    """Count the dead letters of APP by node and exception, and show the newest ones.

    Letters that were replayed are only counted with --replayed. The newest letter is the letter of the record with the
    latest time.

    \b
    Examples:
      streamtopo dlq list apps.wordcount
      streamtopo dlq list apps.wordcount --exception ValueError --since 2h --max 5
      streamtopo dlq list - --dead-letter-topic orders-dlt --json
    """
    with opened_letters(app, dead_letter_topic, log) as letters:
        listing = list_letters(letters.log, letters.topic, selection, most, again=again)
    if as_json:
        click.echo(_listing_to_json(letters, listing))
    else:
        _show_listing(letters, listing)


def _listing_to_json(letters: Letters, listing: Listing) -> str:
    counts = [count._asdict() for count in listing.counts]
    summary = {"topic": letters.topic.name, "letters": listing.letters, "replayed": listing.replayed, "counts": counts}
    newest = ",".join(letter_to_json(one, letters.types(one.letter), whole=False) for one in listing.newest)
    return f'{json_text(summary)[:-1]},"newest":[{newest}]}}'


def _show_listing(letters: Letters, listing: Listing) -> None:
    replayed = f", {listing.replayed:,} replayed" if listing.replayed else ""
    click.echo(f"{letters.topic.name}: {counted(listing.letters, 'dead letter')}{replayed}", err=True)
    show_rows([count_to_row(count) for count in listing.counts], {name: name for name in Count._fields})
    if listing.newest:
        click.echo()
        show_rows([letter_to_row(one, letters.types(one.letter)) for one in listing.newest], COLUMNS)


@dlq.command()
@app_argument
@click.argument("place", callback=parsed(place_of))
@dead_letter_topic_option
@log_option
@json_option
def show(app: str, place: Place, dead_letter_topic: str | None, log: str, as_json: bool) -> None:
    """Show one dead letter of APP: the record, its headers, what went wrong, and the traceback.

    PLACE is the PARTITION/OFFSET of the letter, as `list` shows it, or the TOPIC/PARTITION/OFFSET of the record in its
    source. Numbers are decoded as the source declares them.

    \b
    Examples:
      streamtopo dlq show apps.wordcount 0/12
      streamtopo dlq show apps.wordcount sentences/0/41207 --json
    """
    with opened_letters(app, dead_letter_topic, log) as letters:
        found = find_one(letters.log, letters.topic, place, read_done(letters.log, letters.topic))
    if found is None:
        raise LogError(
            f'there is no dead letter {place} in "{letters.topic.name}"; it may have been purged: list them with '
            "streamtopo dlq list"
        )
    types = letters.types(found.letter)
    if as_json:
        click.echo(letter_to_json(found, types, whole=True))
    else:
        for line in letter_to_lines(found, types):
            click.echo(line)


@dlq.command()
@app_argument
@selection_options
@dead_letter_topic_option
@log_option
def export(app: str, selection: Selection, dead_letter_topic: str | None, log: str) -> None:
    """Print the dead letters of APP, each as a line of JSON, to correct their values and replay them.

    Letters that were replayed are left out. `replay --values` reads the lines.

    \b
    Example:
      streamtopo dlq export apps.orders --node to-cents > letters.jsonl
      (correct the "value" in each line; remove the lines of other letters)
      streamtopo dlq replay apps.orders --values letters.jsonl
    """
    with opened_letters(app, dead_letter_topic, log) as letters:
        for found in find(letters.log, letters.topic, selection, read_done(letters.log, letters.topic)):
            for offset, letter in found.letters():
                placed = PlacedLetter(Place(found.partition, offset), letter, replayed=False)
                click.echo(letter_to_json(placed, letters.types(letter), whole=False))


@dlq.command()
@app_argument
@selection_options
@at_option
@click.option(
    "--values",
    "file",
    metavar="FILE",
    type=click.File("rb"),
    help="Replay only the letters in FILE, with the values there: lines of `dlq export`.",
)
@click.option(
    "--to",
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="Write all records to this topic. Default: the source of each.",
)
@click.option("--again", is_flag=True, help="Include letters that were replayed before.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@dead_letter_topic_option
@log_option
@json_option
def replay(
    app: str,
    selection: Selection,
    file: IO[bytes] | None,
    to: str | None,
    again: bool,
    dry_run: bool,
    dead_letter_topic: str | None,
    log: str,
    as_json: bool,
) -> None:
    """Write the records of dead letters of APP to their source again: all, or those chosen by the options.

    Each record gets its bytes, headers, timestamp and (in its source) partition again. Each letter is replayed once,
    also if the command is interrupted or killed: start it again, and it continues. The topic dlq.<application id>.done
    stores which letters were replayed. If a record fails again, there is a new letter.

    With --values, each record gets its value from the line of its letter in FILE, in the type that APP declares.

    \b
    Examples:
      streamtopo dlq replay apps.wordcount --dry-run
      streamtopo dlq replay apps.wordcount --node to-cents --until 2026-01-31T12:00
      streamtopo dlq replay apps.wordcount --at 0/12 --to sentences-fixed
      streamtopo dlq replay apps.wordcount --values letters.jsonl
    """
    with opened_letters(app, dead_letter_topic, log) as letters:
        if to is not None:
            existing_topic(letters.log, log, to, to_write=True)
        do = plan_replay if dry_run or not letters.topic.partitions else do_replay
        values = None if file is None else values_of(file, letters.types_of)
        done = do(letters.log, letters.topic, selection, Targets(letters.log, to, values), again=again)
    if as_json:
        show_json({"replayed": done.to, "refused": done.refused, "dry_run": dry_run})
    else:
        show_rows([{"topic": name, "letters": number} for name, number in done.to.items()], _BY_TOPIC)
    for reason, number in done.refused.items():
        click.echo(f"{counted(number, 'letter')} cannot be replayed: {reason}", err=True)
    if values and (missing := len(values) - done.to.total() - done.refused.total()):
        text = f"{counted(missing, 'letter')} of the file not found: replayed before, purged, or left out by a filter"
        click.echo(text, err=True)
    what = "would be replayed; dry run, nothing was changed" if dry_run else "replayed"
    click.echo(f"{letters.topic.name}: {counted(done.to.total(), 'dead letter')} {what}", err=True)


_BY_TOPIC = {"topic": "topic", "letters": "letters"}


@dlq.command()
@app_argument
@selection_options
@at_option
@click.option(
    "--older-than", metavar="SPAN", callback=parsed(milliseconds), help="Only records older than this, such as 7d."
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--force", is_flag=True, help="Do not ask.")
@dead_letter_topic_option
@log_option
@json_option
def purge(
    app: str,
    selection: Selection,
    older_than: int | None,
    dry_run: bool,
    force: bool,
    dead_letter_topic: str | None,
    log: str,
    as_json: bool,
) -> None:
    """Delete dead letters of APP: all, or those chosen by the options, also those that were replayed.

    The command asks for confirmation, unless --force is given. A log can only delete the oldest records of a partition.
    So if older letters stay, a purged letter is hidden, and a later purge deletes it.

    \b
    Examples:
      streamtopo dlq purge apps.wordcount --older-than 7d --dry-run
      streamtopo dlq purge apps.wordcount --exception JSONDecodeError --force
    """
    if older_than is not None:
        limits = [limit for limit in (selection.until, wall_clock() - older_than) if limit is not None]
        selection = selection._replace(until=min(limits))
    with opened_letters(app, dead_letter_topic, log) as letters:
        plan = plan_purge(letters.log, letters.topic, selection)
        what = f"{counted(plan.letters, 'dead letter')} of {letters.topic.name}"
        if not dry_run and plan.letters:
            if not force:
                click.confirm(f"Delete {what}?", abort=True, err=True)
            do_purge(letters.log, letters.topic, plan)
    if as_json:
        show_json({"purged": plan.letters, "dry_run": dry_run})
    click.echo(f"{what} {'would be purged; dry run, nothing was changed' if dry_run else 'purged'}", err=True)
