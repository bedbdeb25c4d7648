"""Finds what an application declares for Spark, and opens a Spark session, for the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import click

from streamtopo.cli.shared.options import SparkOptions
from streamtopo.engine.loading import load_module
from streamtopo.errors import StreamtopoError
from streamtopo.settings.extras import missing
from streamtopo.spark.declarations import Declared, Rollup, View, declared_in


def chosen(app: str, names: Sequence[str], kind: type[Declared]) -> list[Declared]:
    """Return the declarations with these names, or all, of the application's module or its module "rollups"."""
    what, found = f"@{kind.__name__.lower()}", declared_in(_modules(app), kind)
    for name in names:
        if name not in found:
            raise StreamtopoError(f'{app} declares no {what} "{name}"; it has {", ".join(found) or "none"}')
    if not found:
        raise StreamtopoError(
            f'{app} declares no {what}; add functions with this decorator there, or in "{app}.rollups"'
        )
    return [one for name, one in found.items() if name in names or not names]


def views_of(app: str, rollups: Sequence[str]) -> list[View]:
    """Return the views that need only these rollups."""
    modules = _modules(app)
    views, known = declared_in(modules, View).values(), declared_in(modules, Rollup)
    for view in views:
        if unknown := set(view.of) - known.keys():
            raise StreamtopoError(
                f'view "{view.name}" reads {", ".join(sorted(unknown))}, but {app} has the rollups {", ".join(known)}'
            )
    return [view for view in views if set(view.of) <= set(rollups)]


def _modules(app: str) -> list[ModuleType]:
    module = load_module(app)
    inner = f"{module.__name__}.rollups"
    inside = hasattr(module, "__path__") and find_spec(inner)
    return [module, load_module(inner)] if inside else [module]


@contextmanager
def spark_for(command: str, app: str, session: SparkOptions, log: str) -> Iterator[Any]:
    """Yield a session whose errors are explained. It is an error if PySpark is not installed."""
    if find_spec("pyspark") is None:
        raise StreamtopoError(missing("this command", "spark"))
    from streamtopo.spark.session import explained, open_spark, settings_for

    settings, modules = settings_for(log, session.settings), [one.__name__ for one in _modules(app)]
    command = f"streamtopo {command} {app}"
    with explained(command), open_spark(command, master=session.master, settings=settings, modules=modules) as spark:
        if spark.sparkContext.uiWebUrl and sys.stderr.isatty():
            click.echo(f"Spark shows its progress at {spark.sparkContext.uiWebUrl}", err=True)
        yield spark
