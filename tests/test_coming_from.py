"""The page for those who come from Kafka Streams names all that is there, and nothing here that is not.

`kafka_streams_names.txt` has the public classes of kafka-streams 4.1.0 and their methods, as `javap -public` lists
them: those of the packages kstream, processor, processor.api, state and query, and those of the top package that
describe, configure, run and ask a topology; without constructors, and without what every object has.
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
from streamtopo.config import WorkerConfig
from streamtopo.dsl.stream_join import StreamJoin
from streamtopo.dsl.stream_table_join import TableJoin
from streamtopo.hosting.app import App
from streamtopo.hosting.query import Query
from streamtopo.processors import Cancellable, RecordContext
from streamtopo.stores.session_view import SessionStore
from streamtopo.stores.versions import Version
from streamtopo.stores.views import KeyValueStore, VersionedStore
from streamtopo.stores.window_view import WindowStore
from streamtopo.testing import Driver

HERE = Path(__file__).parent
PAGE = (HERE.parent / "docs" / "coming-from-kafka-streams.md").read_text()
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
"""What comes before the first heading holds for all of them."""
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
    """Named among what is left out, without a colon and methods behind it."""
    return re.search(rf"`{name}`(?!:)", LEFT_OUT) is not None


@pytest.mark.parametrize(("name", "methods"), list(known()))
def test_every_class_and_method_is_on_the_page(name: str, methods: list[str]) -> None:
    """A method is where its class is, or among what is left out."""
    short = re.split(r"[.$]", name)[-1]
    sections = [words(section) for section in SECTIONS if short in words(section)]
    assert sections, f"{name} is not on the page"
    if not left_out_wholly(short):
        assert set(methods).difference(*sections, words(LEFT_OUT)) == set()


# -- the other way round

PUBLIC: list[Any] = [getattr(streamtopo, name) for name in streamtopo.__all__]
PUBLIC += [Driver, App, Query, KeyValueStore, WindowStore, SessionStore, VersionedStore, Version]
PUBLIC += [Cancellable, RecordContext, WorkerConfig, StreamJoin, TableJoin]


def names_here() -> set[str]:
    """Of all that is public: its name, its attributes, and the parameters of its functions."""
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
    """What the right columns say in code, without strings and what is typed in a shell."""
    rows = [row for section in SECTIONS for row in re.findall(r"^\|.*\|(.*)\|$", section, re.MULTILINE)]
    spans = [span for row in rows for span in re.findall(r"`([^`]+)`", row)]
    return [re.sub(r'"[^"]*"', "", span) for span in spans if not span.startswith(("streamtopo ", "--"))]


@pytest.mark.parametrize("span", spans_here())
def test_every_python_name_on_the_page_is_there(span: str) -> None:
    said = set(re.findall(r"[A-Za-z_]\w*", span))
    there = {re.split(r"[.$]", name)[-1] for name, _ in known()}
    assert said - names_here() - there == set()
