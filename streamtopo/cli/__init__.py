"""The command line: one small file per command; each parses and calls one function."""

from __future__ import annotations

import click

from streamtopo.cli.failures import Commands
from streamtopo.cli.graph import graph


@click.group("streamtopo", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="streamtopo")
def main() -> None:
    """Kafka Streams for Python.

    APP is a module (apps.wordcount), module:attribute, or a path (apps/wordcount, ./app.py:topology).
    """


main.add_command(graph)
