"""streamtopo broker: Apache Kafka on this machine, for development."""

from __future__ import annotations

import time
from pathlib import Path

import click

from streamtopo.broker import Cluster, default_directory
from streamtopo.cli.failures import FAILED, Commands
from streamtopo.cli.options import json_option
from streamtopo.cli.tables import counted, show_json, show_rows
from streamtopo.cli.topics import config_option
from streamtopo.errors import BrokerError

_PAUSE = 0.1

directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    default=default_directory,
    help="Where the cluster lies; the user's data directory unless it is named.",
)


@click.group(cls=Commands)
def broker() -> None:
    """Run Apache Kafka on this machine, for development: no Docker, and gone when it is not needed."""


@broker.command()
@click.option("--brokers", type=click.IntRange(1, 9), metavar="N", help="How many; 1 for a new cluster.")
@click.option(
    "--port", type=click.IntRange(0, 65000), metavar="N", help="The first one; 9092 for a new cluster, 0 any free one."
)
@click.option(
    "--kafka-home",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="An unpacked Apache Kafka, instead of the one that is fetched.",
)
@config_option
@directory_option
def up(brokers: int | None, port: int | None, kafka_home: Path | None, config: dict[str, str], directory: Path) -> None:
    """Start the cluster, or what is not running of it, and print its url.

    The first time Apache Kafka is fetched from Maven Central, or from STREAMTOPO_MAVEN_URL. Java 17 must be there.

    \b
    Examples:
      streamtopo broker up --port 19092
      streamtopo broker up --brokers 3 --dir /tmp/three --port 29092
      streamtopo broker up --kafka-home ~/kafka_2.13-4.1.0 --config log.retention.hours=1
    """
    address = Cluster(directory).up(brokers, port=port, config=config, kafka_home=kafka_home)
    click.echo(f"kafka://{address}")


@broker.command()
@directory_option
def down(directory: Path) -> None:
    """Stop the cluster. Its topics stay where they are, for the next time.

    \b
    Example:
      streamtopo broker down --dir /tmp/three
    """
    running = Cluster(directory).down()
    click.echo(f"the cluster in {directory} {'is down' if running else 'was not running'}")


@broker.command()
@json_option
@directory_option
@click.pass_context
def status(context: click.Context, directory: Path, as_json: bool) -> None:
    """Show each broker: its address, its process and its log; ends with 1 unless all are running.

    \b
    Examples:
      streamtopo broker status --json
      streamtopo broker status --dir /tmp/three
    """
    states = [state._asdict() for state in Cluster(directory).status()]
    if as_json:
        show_json(states)
    elif states:
        show_rows(states, {"address": "address", "pid": "pid", "log": "log"})
    else:
        click.echo(f"there is no cluster in {directory}; streamtopo broker up makes one")
    if not states or any(state["pid"] is None for state in states):
        context.exit(FAILED)


@broker.command()
@click.option("--node", type=click.IntRange(min=0), default=0, metavar="N", show_default=True, help="Of which broker.")
@click.option("--lines", type=click.IntRange(min=1), default=40, metavar="N", show_default=True, help="How many.")
@click.option("--follow", is_flag=True, help="Go on with what comes.")
@directory_option
def logs(node: int, lines: int, follow: bool, directory: Path) -> None:
    """Show the end of a broker's log.

    \b
    Examples:
      streamtopo broker logs --follow
      streamtopo broker logs --node 2 --lines 200
    """
    nodes = Cluster(directory).nodes()
    if node >= len(nodes):
        raise BrokerError(f"the cluster in {directory} has {counted(len(nodes), 'broker')}, counted from 0")
    path = nodes[node].log
    click.echo(nodes[node].tail(lines))
    if follow:
        with path.open(errors="replace") as log:
            log.seek(0, 2)
            while True:
                if not (text := log.read()):
                    time.sleep(_PAUSE)
                click.echo(text, nl=False)
