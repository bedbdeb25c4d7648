"""streamtopo broker: Apache Kafka on this machine, for development."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from streamtopo.broker import Cluster, default_directory
from streamtopo.broker.downloads import Say
from streamtopo.cli.shared.failures import FAILED, Commands
from streamtopo.cli.shared.options import json_option
from streamtopo.cli.shared.tables import counted, show_json, show_rows
from streamtopo.cli.topics import config_option
from streamtopo.errors import BrokerError

_PAUSE = 0.1

directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    default=default_directory,
    help="Directory of the cluster. Default: in the user's data directory.",
)


@click.group(cls=Commands)
def broker() -> None:
    """Run Apache Kafka on this machine, for development."""


@broker.command()
@click.option("--brokers", type=click.IntRange(1, 9), metavar="N", help="Number of brokers; 1 for a new cluster.")
@click.option(
    "--port",
    type=click.IntRange(0, 65000),
    metavar="N",
    help="Port of the first broker; 9092 for a new cluster. 0: any free port.",
)
@click.option(
    "--kafka-home",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Directory of an unpacked Apache Kafka to use instead of a downloaded one.",
)
@config_option
@directory_option
def up(brokers: int | None, port: int | None, kafka_home: Path | None, config: dict[str, str], directory: Path) -> None:
    """Start the cluster and print the line that lets all commands use it.

    Brokers that are already running are not changed. The first time, Apache Kafka is downloaded from Maven Central, or
    from STREAMTOPO_MAVEN_URL. STREAMTOPO_BROKER_VERSION names another version than 4.3.1. Java 17 is required; Docker
    is not.

    \b
    Examples:
      eval "$(streamtopo broker up)"
      streamtopo broker up --port 19092
      streamtopo broker up --brokers 3 --dir /tmp/three --port 29092
      streamtopo broker up --kafka-home ~/kafka_2.13-4.3.1 --config log.retention.hours=1
    """
    with _progress() as say:
        address = Cluster(directory).up(brokers, port=port, config=config, kafka_home=kafka_home, say=say)
    click.echo(f"export STREAMTOPO_LOG=kafka://{address}")


@contextmanager
def _progress() -> Iterator[Say]:
    """Show progress on standard error: a line that changes on a terminal, else a line for each thing that is done."""
    if not sys.stderr.isatty():
        said = set[str]()

        def say(doing: str, progress: str) -> None:
            if doing not in said:
                click.echo(doing, err=True)
            said.add(doing)

        yield say
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as status:
        yield lambda doing, progress: status.update(Text(f"{doing}: {progress}" if progress else doing))


@broker.command()
@directory_option
def down(directory: Path) -> None:
    """Stop the cluster. Its topics are kept for the next start.

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
    """Show the address, process and log of each broker.

    The exit code is 1 unless all of them are running.

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
        click.echo(f"there is no cluster in {directory}; create one: streamtopo broker up")
    if not states or any(state["pid"] is None for state in states):
        context.exit(FAILED)


@broker.command()
@click.option(
    "--node",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    show_default=True,
    help="Number of the broker, from 0.",
)
@click.option(
    "--lines", type=click.IntRange(min=1), default=40, metavar="N", show_default=True, help="Number of lines to show."
)
@click.option("--follow", is_flag=True, help="Wait for new lines and show them.")
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
        raise BrokerError(f"the cluster in {directory} has {counted(len(nodes), 'broker')}; --node counts from 0")
    path = nodes[node].log
    click.echo(nodes[node].tail(lines))
    if follow:
        with path.open(errors="replace") as log:
            log.seek(0, 2)
            while True:
                if not (text := log.read()):
                    time.sleep(_PAUSE)
                click.echo(text, nl=False)
