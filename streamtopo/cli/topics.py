"""streamtopo topics: manage the topics of a log, and show which ones a topology needs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamtopo.cli.shared.failures import FAILED, Commands
from streamtopo.cli.shared.log_access import (
    complete_topic,
    existing_topic,
    no_log_message,
    opened_log,
    opened_log_or_empty,
)
from streamtopo.cli.shared.options import json_option, log_option, worker_option
from streamtopo.cli.shared.tables import counted, show_json, show_rows, show_topics
from streamtopo.errors import LogError
from streamtopo.logs import Log, Topic
from streamtopo.logs.opening import directory_of, log_exists, shown_log
from streamtopo.logs.topics import MOST_PARTITIONS
from streamtopo.records import TopicPartition
from streamtopo.settings.config import config_of
from streamtopo.topology.names import valid_name

if TYPE_CHECKING:
    from streamtopo.logs.embedded.storage.verification import Verified

_REPAIR_HINT = (
    "restore a copy of the log, or let groups continue after the damaged records (streamtopo reset --from-file)"
)
topic_argument = click.argument("topic", metavar="NAME", shell_complete=complete_topic)


@click.group(cls=Commands)
def topics() -> None:
    """List, create, describe, verify, compact, delete and plan topics."""


@topics.command("list")
@log_option
@json_option
def list_topics(log: str, as_json: bool) -> None:
    """List the topics: name, partitions, config.

    \b
    Examples:
      streamtopo topics list --log embedded:data
      streamtopo topics list --json
    """
    with opened_log_or_empty(log) as source:
        found = [_topic_row(topic) for _, topic in sorted(source.topics().items())]
    if as_json:
        show_json(found)
    else:
        show_topics(found, ("topic", "partitions"))


def _topic_row(topic: Topic) -> dict[str, Any]:
    return {"topic": topic.name, "partitions": topic.partitions, "config": dict(topic.config)}


def _config_pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    for pair in given:
        if not pair.partition("=")[0] or "=" not in pair:
            raise click.BadParameter(f'"{pair}" is not KEY=VALUE', context, parameter)
    return {name: value for name, _, value in (pair.partition("=") for pair in given)}


config_option = click.option(
    "--config",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_config_pairs,
    help="A setting by its Kafka name, such as cleanup.policy=compact. May be repeated.",
)


@topics.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--partitions", type=click.IntRange(1, MOST_PARTITIONS), required=True, metavar="N", help="Number of partitions."
)
@config_option
@log_option
def create(names: tuple[str, ...], partitions: int, config: dict[str, str], log: str) -> None:
    """Create each topic NAME, and the log if it does not exist.

    If a topic already exists with the same partitions and settings, nothing changes.

    \b
    Examples:
      streamtopo topics create sentences word-counts --partitions 4
      streamtopo topics create prices --partitions 4 --config cleanup.policy=compact
      streamtopo topics create clicks --partitions 4 --config retention.ms=86400000
    """
    wanted = [Topic(valid_name(name, "topic"), partitions, config) for name in names]
    with opened_log(log, create=True) as target:
        before = target.topics()
        for topic in wanted:
            target.create(topic)
            what = "exists already" if topic.name in before else "created"
            click.echo(f'topic "{topic.name}" {what}: {counted(partitions, "partition")} in {shown_log(log)}')


@topics.command()
@topic_argument
@log_option
@json_option
def describe(topic: str, log: str, as_json: bool) -> None:
    """Show the first and the next offset of each partition of NAME.

    \b
    Examples:
      streamtopo topics describe sentences
      streamtopo topics describe sentences --json
    """
    with opened_log(log) as source:
        known = existing_topic(source, log, topic)
        partitions = [_partition_range(source, TopicPartition(topic, number)) for number in range(known.partitions)]
    if as_json:
        show_json(_topic_row(known) | {"partitions": partitions})
        return
    click.echo(
        f"{topic}: {counted(known.partitions, 'partition')}" + "".join(f", {k}={v}" for k, v in known.config.items())
    )
    show_rows(partitions, {"partition": "partition", "start": "start", "end": "end"})


def _partition_range(log: Log, partition: TopicPartition) -> dict[str, int]:
    return {"partition": partition.partition, "start": log.start(partition), "end": log.end(partition)}


@topics.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_topic)
@log_option
@json_option
@click.pass_context
def verify(context: click.Context, names: tuple[str, ...], log: str, as_json: bool) -> None:
    """Read all records, and list the damaged ones.

    Read all records of the embedded log, or only those of the topics NAME. The exit code is 1 if any are damaged.
    Workers may run at the same time. A Kafka cluster verifies its records itself.

    \b
    Examples:
      streamtopo topics verify --log embedded:data
      streamtopo topics verify sentences word-counts --json
    """
    directory = _embedded(log, "verified", "verifies its records")
    from streamtopo.logs.embedded.storage.verification import verify as verify_log

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


def _embedded(log: str, done: str, does: str) -> Path:
    """The directory of an existing embedded log; LogError for others."""
    directory = directory_of(log)
    if directory is None:
        raise LogError(
            f'only an embedded log can be {done} (--log embedded:DIRECTORY), not "{shown_log(log)}"; a Kafka cluster '
            f"{does} itself"
        )
    if not log_exists(log):
        raise LogError(f"{no_log_message(log)}; check --log")
    return directory


def _summary(found: Verified) -> str:
    read = f"read {counted(found.batches, 'batch', 'batches')} with {counted(found.records, 'record')} that are intact"
    if found.unchecked:
        read += f"; {found.unchecked:,} of these were written by an earlier version and have no checksum"
    if found.damages:
        read = f"damage in {counted(len(found.damages), 'place')}; {read}; {_REPAIR_HINT}"
    return read


@topics.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_topic)
@log_option
def delete(names: tuple[str, ...], log: str) -> None:
    """Delete each topic NAME with its records.

    The positions of groups in them are deleted, too. The command does not ask for confirmation. First stop the workers
    that read or write the topics. If one of the topics does not exist, none is deleted.

    \b
    Example:
      streamtopo topics delete sentences word-counts
    """
    with opened_log(log) as target:
        for name in names:
            existing_topic(target, log, name)
        for name in dict.fromkeys(names):
            target.delete(name)
            click.echo(f'topic "{name}" deleted from {shown_log(log)}')


@topics.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_topic)
@click.option("--wipe", is_flag=True, help="Also remove the bytes of deleted records from the log's files.")
@log_option
def compact(names: tuple[str, ...], wipe: bool, log: str) -> None:
    """Compact each topic NAME now: keep only the last record of each key.

    Workers compact topics with cleanup.policy=compact from time to time, so that this is only needed if it must be done
    now. A deletion (a null) stays for the topic's delete.retention.ms: its key is gone after another compaction. A
    Kafka cluster compacts its topics itself.

    With --wipe, the file of the log is written again. This needs as much free space as the log has. First stop the
    workers, which could not commit meanwhile.

    \b
    Example:
      streamtopo topics compact profiles shop-profiles-changelog --wipe
    """
    from streamtopo.logs.embedded import EmbeddedLog

    directory = _embedded(log, "compacted", "compacts its topics")
    with closing(EmbeddedLog(directory)) as target:
        known = [existing_topic(target, log, name) for name in names]
        for topic in known:
            if "compact" not in topic.config.get("cleanup.policy", ""):
                raise LogError(f'topic "{topic.name}" is not compacted: it has no cleanup.policy=compact')
        for topic in known:
            for number in range(topic.partitions):
                target.compact(TopicPartition(topic.name, number))
            click.echo(f'topic "{topic.name}" compacted')
        if wipe:
            target.wipe()


@topics.command()
@click.argument("app")
@worker_option("create_topics")
@worker_option("no_create")
@worker_option("wait_for_topics")
@log_option
@json_option
def plan(app: str, log: str, as_json: bool, **options: Any) -> None:
    """Show the topics that APP needs, and whether they exist.

    A worker creates the internal topics when it starts. On the embedded log, or with --create-topics, it also creates
    the other topics. Give this command the same options and settings as the worker.

    \b
    Examples:
      streamtopo topics plan apps.wordcount
      streamtopo topics plan ./app.py:topology --json
    """
    from streamtopo.cli.shared.required_topics import required_topics
    from streamtopo.engine.loading import load_topology

    topology, config = load_topology(app), config_of(**options)
    with opened_log_or_empty(log) as source:
        found = [required._asdict() for required in required_topics(topology, source, config)]
    if as_json:
        show_json(found)
        return
    show_topics(found, ("topic", "kind", "partitions", "state"))
