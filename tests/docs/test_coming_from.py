"""The page for users of Kafka Streams names every class and method of it, and only names of ours that exist.

`kafka_streams_names.txt` has the public classes of kafka-streams 4.1.0 and their methods, as `javap -public` lists
them: those of the packages kstream, processor, processor.api, state and query, and those of the top package that
describe, configure, run and query a topology; without constructors, and without the methods of Object.
"""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import streamtopo
from streamtopo.dsl.joins.stream_join import StreamJoin
from streamtopo.dsl.joins.stream_table_join import TableJoin
from streamtopo.hosting.app import App
from streamtopo.hosting.queries.query import Query
from streamtopo.processors import Cancellable, RecordContext
from streamtopo.settings.config import WorkerConfig
from streamtopo.stores.rows.versions import Version
from streamtopo.stores.views.key_value import KeyValueStore, VersionedStore
from streamtopo.stores.views.session import SessionStore
from streamtopo.stores.views.window import WindowStore
from streamtopo.testing import Cluster, Driver

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "coming-from" / "kafka-streams.md").read_text()
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
"""The text before the first heading applies to all classes."""
(LEFT_OUT,) = (section for section in SECTIONS if section.startswith("Left out"))


def known() -> Iterator[tuple[str, list[str]]]:
    for line in (HERE / "kafka_streams_names.txt").read_text().splitlines():
        name, _, methods = line.partition(":")
        yield name, methods.split()


def code(text: str) -> str:
    return " ".join(re.findall(r"`([^`]+)`", text))


def words(section: str) -> set[str]:
    return set(re.findall(r"\w+", f"{section.partition(chr(10))[0]} {code(section)}"))


def left_out_wholly(name: str) -> bool:
    """Return whether a class is listed as left out, without a colon and methods after it."""
    return re.search(rf"`{name}`(?!:)", LEFT_OUT) is not None


@pytest.mark.parametrize(("name", "methods"), list(known()))
def test_every_class_and_method_is_on_the_page(name: str, methods: list[str]) -> None:
    """A method is named with its class, or among what is left out."""
    short = re.split(r"[.$]", name)[-1]
    sections = [words(section) for section in SECTIONS if short in words(section)]
    assert sections, f"{name} is not on the page"
    if not left_out_wholly(short):
        assert set(methods).difference(*sections, words(LEFT_OUT)) == set()


# -- names of streamtopo

PUBLIC: list[Any] = [getattr(streamtopo, name) for name in streamtopo.__all__]
PUBLIC += [Cluster, Driver, App, Query, KeyValueStore, WindowStore, SessionStore, VersionedStore, Version]
PUBLIC += [Cancellable, RecordContext, WorkerConfig, StreamJoin, TableJoin]


def names_here() -> set[str]:
    """Return all public names, their attributes, and the parameters of their functions."""
    names = {"streamtopo", *streamtopo.__all__, *dir(builtins), "lambda", "with", "as", "match", "re", "app", "query"}
    for thing in PUBLIC:
        names |= (
            {thing.__name__, *dir(thing), *getattr(thing, "__annotations__", ())} if inspect.isclass(thing) else set()
        )
        functions = [thing, *(getattr(thing, name, None) for name in dir(thing) if not name.startswith("__"))]
        for function in filter(inspect.isfunction, functions):
            names |= set(inspect.signature(function).parameters)
    return names


def spans_here() -> list[str]:
    """Return the code in the right columns, without strings and shell commands."""
    rows = [row for section in SECTIONS for row in re.findall(r"^\|.*\|(.*)\|$", section, re.MULTILINE)]
    spans = [span for row in rows for span in re.findall(r"`([^`]+)`", row)]
    return [re.sub(r'"[^"]*"', "", span) for span in spans if not span.startswith(("streamtopo ", "--"))]


@pytest.mark.parametrize("span", spans_here())
def test_every_python_name_on_the_page_exists(span: str) -> None:
    words = set(re.findall(r"[A-Za-z_]\w*", span))
    there = {re.split(r"[.$]", name)[-1] for name, _ in known()}
    assert words - names_here() - there == set()
