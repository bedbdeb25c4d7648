"""Imports point down, each third-party package has its places, and every module says what it is."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamtopo

ROOT = Path(streamtopo.__file__).parent
FILES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}

LAYERS = [  # from top to bottom; what shares a line is independent of each other; __init__ is the public face
    {"__main__"},
    {"cli"},
    {"integrations"},
    {"pytest_plugin"},
    {"testing"},
    {"driver_stores"},
    {"__init__"},
    {"web"},
    {"hosting"},
    {"engine", "spark"},
    {"dsl", "drawing"},
    {"operators"},
    {"declarations"},
    {"processors", "topology"},
    {"stores", "logs"},
    {"windowed_serdes"},
    {"aggregators", "timestamps"},
    {"serdes"},
    {"checks"},
    {"models", "record_fields"},
    {"exact_json"},
    {"config", "demo", "broker", "windows"},
    {"directories", "durations", "extras", "names", "partitioning", "records", "redaction"},
    {"errors"},
]

ONLY_IN = {
    "click": {"cli", "integrations.faust"},
    "confluent_kafka": {"logs.kafka"},
    "faust": {"integrations.faust"},
    "mode": {"integrations.faust"},
    "msgspec": {"exact_json", "models", "record_fields", "serdes"},
    "orjson": {
        "integrations.faust",
        "exact_json",
        "operators.buffer",
        "engine.task",
        "engine.fingerprint",
        "hosting.peers",
        "hosting.texts",
        "web",
        "drawing.as_json",
    },
    "pyarrow": {"logs.embedded", "spark.columns"},
    "psycopg": {"spark.sql"},
    "py4j": {"spark.session"},
    "pyspark": {"spark"},
    "pytest": {"pytest_plugin"},
    "rich": {"cli"},
    "rocksdict": {"stores.rocks"},
    "sqlite3": {"logs.embedded", "spark.sql"},
    "starlette": {"web"},
    "uvicorn": {"web"},
    "yarl": {"integrations.faust"},
}
DESCRIPTION = {"dsl", "drawing", "operators", "processors", "topology"}
IMPURE = {"asyncio", "io", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile", "threading", "time"}


def imports(module: str) -> Iterator[str]:
    """What a module imports, anywhere in it, for the type checker only too."""
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=name, level=level):
                assert not level, f"{module} has a relative import"
                yield name or ""
            case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str(name)), *_]):
                yield name


def packages(module: str) -> set[str]:
    return {name.partition(".")[0] for name in imports(module)} - {"streamtopo"}


def layer(module: str) -> int:
    found = [place for place, names in enumerate(LAYERS) if module.partition(".")[0] in names]
    assert found, f"{module} is in no layer; give it its place in LAYERS"
    return found[0]


def inside(imported: str) -> str:
    return imported.removeprefix("streamtopo").removeprefix(".") or "__init__"


@pytest.mark.parametrize("module", FILES)
def test_imports_point_down(module: str) -> None:
    above = layer(module)
    ours = [inside(name) for name in imports(module) if name.partition(".")[0] == "streamtopo"]
    others = [name for name in ours if name.partition(".")[0] != module.partition(".")[0]]
    assert [f"{module} imports {name}" for name in others if layer(name) <= above] == []


@pytest.mark.parametrize("module", FILES)
def test_packages_are_imported_in_their_places_only(module: str) -> None:
    named = {name for name in packages(module) if name in ONLY_IN or name not in sys.stdlib_module_names}
    places = {module.rsplit(".", cut)[0] for cut in range(module.count(".") + 1)}
    assert [f"{module} imports {name}" for name in sorted(named) if not places & ONLY_IN.get(name, set())] == []


@pytest.mark.parametrize("module", [name for name in FILES if name.partition(".")[0] in DESCRIPTION])
def test_describing_touches_no_file_socket_thread_loop_or_clock(module: str) -> None:
    assert packages(module) & IMPURE == set()


@pytest.mark.parametrize("module", FILES)
def test_modules_say_what_they_are(module: str) -> None:
    text = FILES[module].read_text()
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= 600


def test_the_public_names_are_sorted_and_there() -> None:
    assert streamtopo.__all__ == sorted(streamtopo.__all__)
    assert [name for name in streamtopo.__all__ if not hasattr(streamtopo, name)] == []
