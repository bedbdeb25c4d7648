"""The command line: one small file per command; each parses and calls one function."""

from __future__ import annotations

import click

from streamtopo import __version__
from streamtopo.cli.broker import broker
from streamtopo.cli.completion import completion
from streamtopo.cli.consume import consume
from streamtopo.cli.dlq import dlq
from streamtopo.cli.graph import graph
from streamtopo.cli.groups import groups
from streamtopo.cli.new import new
from streamtopo.cli.produce import produce
from streamtopo.cli.query import query
from streamtopo.cli.reconcile import reconcile
from streamtopo.cli.reset import reset
from streamtopo.cli.rollup import rollup
from streamtopo.cli.shared.failures import Commands
from streamtopo.cli.topics import topics
from streamtopo.cli.worker import worker


@click.group("streamtopo", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Kafka Streams for Python.

    APP is a module (apps.wordcount), module:attribute, or a path (apps/wordcount, ./app.py:topology). The attribute is
    a topology, a builder, or a function that returns one; it may be left out if there is only one topology or builder.
    """


for command in (
    broker,
    completion,
    consume,
    dlq,
    graph,
    groups,
    new,
    produce,
    query,
    reconcile,
    reset,
    rollup,
    topics,
    worker,
):
    main.add_command(command)
