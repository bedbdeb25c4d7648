"""streamtopo graph: draw a topology."""

from __future__ import annotations

from pathlib import PurePath
from typing import IO

import click

SUFFIXES = {".txt": "text", ".mmd": "mermaid", ".dot": "dot", ".svg": "svg", ".json": "json"}


@click.command()
@click.argument("app")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(SUFFIXES.values())),
    help="Output format. Default: from the suffix of FILE (.txt .mmd .dot .svg .json), or text without FILE.",
)
@click.option(
    "-o",
    "--output",
    type=click.File("w", encoding="utf-8", lazy=True),
    metavar="FILE",
    help="Write to FILE instead of standard output.",
)
def graph(app: str, form: str | None, output: IO[str] | None) -> None:
    """Draw the topology of APP.

    \b
    Examples:
      streamtopo graph apps.wordcount
      streamtopo graph apps/wordcount -o wordcount.svg
      streamtopo graph ./app.py:topology --format mermaid
    """
    form = form or _format_of(output.name if output else "-")
    from streamtopo.drawing import FORMATS
    from streamtopo.engine.loading import load_topology

    click.echo(FORMATS[form](load_topology(app)), file=output, nl=False)


def _format_of(file: str) -> str:
    suffix = PurePath(file).suffix.lower()
    if file == "-":
        return "text"
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise click.UsageError(f'the suffix of "{file}" is not a known format; use one of {known}, or give --format')
    return SUFFIXES[suffix]
