"""streamtopo topics: what is in a log, and what a topology needs there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streamtopo.cli.failures import FAILED, Commands
from streamtopo.cli.opening import absent, complete_topic, directory_of, existing, missing, opened, opened_or_empty
from streamtopo.cli.options import json_option, log_option
from streamtopo.cli.tables import counted, show_json, show_rows
from streamtopo.errors import LogError
from streamtopo.logs import Log, Topic
from streamtopo.logs.topics import MOST_PARTITIONS
from streamtopo.records import TopicPartition
from streamtopo.redaction import shown_url
from streamtopo.topology import valid_name

if TYPE_CHECKING:
    from streamtopo.logs.embedded.verifying import Verified

ADVICE = "restore a copy of the log, or let groups go on after what is damaged (streamtopo reset --from-file)"
topic_argument = click.argument("topic", metavar="NAME", shell_complete=complete_topic)


@click.group(cls=Commands)
def topics() -> None:
    """List, create, describe, verify, delete and plan topics."""


@topics.command("list")
@log_option
@json_option
def list_topics(log: str, as_json: bool) -> None:
    """List the topics: name, partitions, config.

    \b
    Examples:
      streamtopo topics list --log embedded:elsewhere
      streamtopo topics list --json
    """
    with opened_or_empty(log) as source:
        found = [_described(topic) for _, topic in sorted(source.topics().items())]
    if as_json:
        show_json(found)
    else:
        show_rows(found, {"topic": "topic", "partitions": "partitions", "config": "config"})


def _described(topic: Topic) -> dict[str, Any]:
    return {"topic": topic.name, "partitions": topic.partitions, "config": dict(topic.config)}


def _pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    for pair in given:
        if not pair.partition("=")[0] or "=" not in pair:
            raise click.BadParameter(f'"{pair}" is not KEY=VALUE', context, parameter)
    return {name: value for name, _, value in (pair.partition("=") for pair in given)}


config_option = click.option(
    "--config",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_pairs,
    help="Kafka's name and a value, such as cleanup.policy=compact; may be repeated.",
)


@topics.command()
@click.argument("topic", metavar="NAME")
@click.option("--partitions", type=click.IntRange(1, MOST_PARTITIONS), required=True, metavar="N", help="How many.")
@config_option
@log_option
def create(topic: str, partitions: int, config: dict[str, str], log: str) -> None:
    """Create topic NAME, and the log if it is not there yet.

    A topic that is there already, and the same, is left as it is.

    \b
    Examples:
      streamtopo topics create sentences --partitions 4
      streamtopo topics create prices --partitions 4 --config cleanup.policy=compact
      streamtopo topics create clicks --partitions 4 --config retention.ms=86400000
    """
    wanted = Topic(valid_name(topic, "topic"), partitions, config)
    with opened(log, create=True) as target:
        before = target.topics().get(topic)
        target.create(wanted)
    what = "was there already" if before else "created"
    click.echo(f'topic "{topic}" {what}: {counted(partitions, "partition")} in {shown_url(log)}')


@topics.command()
@topic_argument
@log_option
@json_option
def describe(topic: str, log: str, as_json: bool) -> None:
    """Show where each partition of topic NAME starts and ends: its first offset and its next.

    \b
    Examples:
      streamtopo topics describe sentences
      streamtopo topics describe sentences --json
    """
    with opened(log) as source:
        known = existing(source, log, topic)
        partitions = [_extent(source, TopicPartition(topic, number)) for number in range(known.partitions)]
    if as_json:
        show_json(_described(known) | {"partitions": partitions})
        return
    click.echo(
        f"{topic}: {counted(known.partitions, 'partition')}" + "".join(f", {k}={v}" for k, v in known.config.items())
    )
    show_rows(partitions, {"partition": "partition", "start": "start", "end": "end"})


def _extent(log: Log, partition: TopicPartition) -> dict[str, int]:
    return {"partition": partition.partition, "start": log.start(partition), "end": log.end(partition)}


@topics.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_topic)
@log_option
@json_option
@click.pass_context
def verify(context: click.Context, names: tuple[str, ...], log: str, as_json: bool) -> None:
    """Read all records of the embedded log, or of topics NAME, and list what is damaged: exit code 1 if anything is.

    Workers may go on meanwhile. A Kafka cluster checks its records by itself.

    \b
    Examples:
      streamtopo topics verify --log embedded:elsewhere
      streamtopo topics verify sentences word-counts --json
    """
    directory = directory_of(log)
    if directory is None:
        raise LogError(
            f'only an embedded log can be verified (--log embedded:DIRECTORY), not "{shown_url(log)}"; a Kafka cluster '
            "checks its records by itself"
        )
    if missing(log):
        raise LogError(f"{absent(log)}; look at --log")
    from streamtopo.logs.embedded.verifying import verify as verify_log

    found = verify_log(directory, names)
    if as_json:
        show_json(found._asdict() | {"damages": [damage._asdict() for damage in found.damages]})
    else:
        if found.damages:
            headings = ("topic", "partition", "first", "last", "problem")
            show_rows([damage._asdict() for damage in found.damages], {name: name for name in headings})
        click.echo(_summary(found), err=bool(found.damages))
    if found.damages:
        context.exit(FAILED)


def _summary(found: Verified) -> str:
    read = f"read {counted(found.batches, 'batch', 'batches')} with {counted(found.records, 'record')} that are whole"
    if found.unchecked:
        read += f"; {found.unchecked:,} of these are of an earlier version and have no checksum"
    if found.damages:
        read = f"damage in {counted(len(found.damages), 'place')}; {read}; {ADVICE}"
    return read


@topics.command()
@topic_argument
@log_option
def delete(topic: str, log: str) -> None:
    """Delete topic NAME with its records, and what groups remember of it. It does not ask.

    Stop the workers that read or write it first.

    \b
    Example:
      streamtopo topics delete sentences
    """
    with opened(log) as target:
        existing(target, log, topic)
        target.delete(topic)
    click.echo(f'topic "{topic}" deleted from {shown_url(log)}')


@topics.command()
@click.argument("app")
@log_option
@json_option
def plan(app: str, log: str, as_json: bool) -> None:
    """Show every topic that the topology of APP needs, whether it is there, and what a worker would create.

    A worker creates the internal topics; the others must be there before it starts, unless it may --create-topics.

    \b
    Examples:
      streamtopo topics plan apps.wordcount
      streamtopo topics plan ./app.py:topology --json
    """
    from streamtopo.cli.planned import planned
    from streamtopo.engine.loading import load_topology

    topology = load_topology(app)
    with opened_or_empty(log) as source:
        found = [needed._asdict() for needed in planned(topology, source.topics(), source.keeps_deletions)]
    if as_json:
        show_json(found)
        return
    show_rows(found, {name: name for name in ("topic", "kind", "partitions", "state", "config")})
