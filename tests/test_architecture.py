"""Imports point down, third-party packages are imported in their places only, and every module has a docstring."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamtopo

ROOT = Path(streamtopo.__file__).parent
FILES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}

LAYERS = [  # from top to bottom; rooms on one line are independent; an __init__ is the public face of its rooms
    {"__main__"},
    {"cli"},
    {"cli.running"},
    {"cli.shared"},
    {"integrations"},
    {"pytest_plugin"},
    {"testing"},
    {"__init__"},
    {"web"},
    {"hosting"},
    {"hosting.sources"},
    {"hosting.engines", "hosting.peers"},
    {"hosting.queries"},
    {"hosting.answers"},
    {"engine.processes", "engine.worker"},
    {"engine.assignment"},
    {"engine.task", "engine.topics"},
    {"engine.compatibility", "engine.program"},
    {"engine.failures"},
    {"engine", "spark.reports"},
    {"spark.rollups"},
    {"spark.sinks"},
    {"spark.delta", "spark.topics"},
    {"spark"},
    {"spark.source"},
    {"spark.decoding"},
    {"dsl", "drawing.formats"},
    {"drawing.layout"},
    {"drawing"},
    {"operators.joins"},
    {"operators.windows"},
    {"operators.tables"},
    {"operators"},
    {"topology"},
    {"dead_letters"},
    {"processors", "steps"},
    {"logs.opening", "stores.build", "stores.views"},
    {"logs.embedded", "logs.kafka", "stores.backends", "stores.rows"},
    {"logs", "stores"},
    {"aggregators", "timestamps"},
    {"serdes"},
    {"broker", "demo", "row_calls", "windows"},
    {"partitioning", "private_directories", "records", "settings"},
    {"errors", "hints", "wall_clock"},
]
ROOMS = {name: place for place, names in enumerate(LAYERS) for name in names}

ONLY_IN = {
    "click": {"cli", "integrations.faust"},
    "confluent_kafka": {"logs.kafka"},
    "deltalake": {"spark.delta.versions"},
    "faust": {"integrations.faust"},
    "mode": {"integrations.faust"},
    "msgspec": {"serdes", "spark.decoding.records"},
    "orjson": {
        "integrations.faust",
        "serdes.exact_json",
        "operators.joins.grace_buffer",
        "engine.task.metadata",
        "engine.compatibility.fingerprint",
        "hosting.peers",
        "hosting.queries.text_format",
        "web",
        "drawing.formats.as_json",
    },
    "pyarrow": {"logs.embedded", "spark.decoding", "spark.delta.versions", "spark.source.columns"},
    "psycopg": {"spark.sinks.sql"},
    "py4j": {"spark.session"},
    "pyspark": {"spark"},
    "pytest": {"pytest_plugin"},
    "rich": {"cli"},
    "rocksdict": {"stores.backends.rocks"},
    "sqlite3": {"logs.embedded", "spark.sinks.sql"},
    "starlette": {"web"},
    "typing_extensions": {"dsl.builder", "records.type_parameters"},
    "uvicorn": {"web"},
    "yarl": {"integrations.faust"},
}
DESCRIPTION = {"dsl", "drawing", "operators", "processors", "topology"}
ATTRIBUTES, METHODS, MODULES = 16, 26, 14
"""Limits for a class and a room: beyond them a class has several roles, and a room several ideas."""
LARGE_CLASSES = {
    "dsl.kstream.KStream": "each operator of the language is a method",
    "settings.config.WorkerConfig": "each option is a field",
    "hosting.app.App": "all that an application does in the process that hosts it",
    "hosting.app.AsyncApp": "the same, awaited",
}
CORE = {"topology", "dsl", "operators", "stores", "engine", "hosting", "logs"}
IMPURE = {"asyncio", "io", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile", "threading", "time"}


def imports(module: str) -> Iterator[str]:
    """Yield what a module imports anywhere, also for the type checker only."""
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(name), names=names, level=level):
                assert not level, f"{module} has a relative import"
                for full in (f"{name}.{alias.name}" for alias in names):
                    yield full if {inside(full), f"{inside(full)}.__init__"} & FILES.keys() else name
            case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str(name)), *_]):
                yield name


def packages(module: str) -> set[str]:
    return {name.partition(".")[0] for name in imports(module)} - {"streamtopo"}


def room(module: str) -> str:
    """Return the innermost room in LAYERS that contains the module."""
    found = [name for name in ROOMS if f"{module}.".startswith(f"{name}.")]
    assert found, f"{module} is in no room; give it its place in LAYERS"
    return max(found, key=len)


def is_face(module: str, imported: str) -> bool:
    """Return whether the module is the __init__ of the package that contains the imported one."""
    package = module.removesuffix("__init__")
    return package != module and f"{imported}.".startswith(package)


def inside(imported: str) -> str:
    return imported.removeprefix("streamtopo").removeprefix(".") or "__init__"


@pytest.mark.parametrize("module", FILES)
def test_imports_point_down(module: str) -> None:
    own = room(module)
    ours = [inside(name) for name in imports(module) if name.partition(".")[0] == "streamtopo"]
    others = [name for name in ours if room(name) != own and not is_face(module, name)]
    assert [f"{module} imports {name}" for name in others if ROOMS[room(name)] <= ROOMS[own]] == []


@pytest.mark.parametrize("module", FILES)
def test_packages_are_imported_in_their_places_only(module: str) -> None:
    named = {name for name in packages(module) if name in ONLY_IN or name not in sys.stdlib_module_names}
    places = {module.rsplit(".", cut)[0] for cut in range(module.count(".") + 1)}
    assert [f"{module} imports {name}" for name in sorted(named) if not places & ONLY_IN.get(name, set())] == []


@pytest.mark.parametrize("module", [name for name in FILES if name.partition(".")[0] in DESCRIPTION])
def test_the_description_layer_uses_no_file_socket_thread_loop_or_clock(module: str) -> None:
    assert packages(module) & IMPURE == set()


@pytest.mark.parametrize("module", FILES)
def test_every_module_has_a_docstring(module: str) -> None:
    text = FILES[module].read_text()
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= 600


def classes() -> dict[str, ast.ClassDef]:
    """Return all top-level classes by module and name."""
    return {
        f"{module}.{node.name}": node
        for module, path in FILES.items()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    }


def bodies(found: ast.ClassDef, named: dict[str, list[ast.ClassDef]]) -> Iterator[ast.ClassDef]:
    """Yield a class and our classes it inherits from: a class split into base classes has all their roles."""
    yield found
    for base in found.bases:
        for inherited in named.get(base.id, []) if isinstance(base, ast.Name) else []:
            yield from bodies(inherited, named)


def attributes(body: ast.ClassDef) -> set[str]:
    """Return the attributes declared in the class or assigned to self by its methods."""
    declared = {
        node.target.id for node in body.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    stored = [node for node in ast.walk(body) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return declared | {node.attr for node in stored if isinstance(node.value, ast.Name) and node.value.id == "self"}


def methods(body: ast.ClassDef) -> set[str]:
    return {node.name for node in body.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_a_class_has_one_role() -> None:
    found = classes()
    named: dict[str, list[ast.ClassDef]] = {}
    for node in found.values():
        named.setdefault(node.name, []).append(node)
    large = {
        name
        for name, node in found.items()
        for count, most in ((attributes, ATTRIBUTES), (methods, METHODS))
        if len(set[str]().union(*map(count, bodies(node, named)))) > most
    }
    assert large == LARGE_CLASSES.keys()


def types(module: str) -> Iterator[str]:
    """Yield the classes of a module and its type aliases, without the underscore of a private name."""
    for node in ast.parse(FILES[module].read_text()).body:
        match node:
            case ast.ClassDef(name=name):
                yield name.lstrip("_")
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
                continue
            case ast.Assign(targets=[ast.Name(id=name)]) if re.fullmatch(r"_?[A-Z][a-z]\w*", name):
                yield name.lstrip("_")


def test_a_type_name_is_used_once() -> None:
    places: dict[str, list[str]] = {}
    for module in FILES:
        if module.partition(".")[0] in CORE:
            for name in types(module):
                places.setdefault(name, []).append(module)
    shared = {name: modules for name, modules in places.items() if len(modules) > 1}
    assert shared == {}


def test_a_room_has_one_idea() -> None:
    rooms = Counter(path.parent.relative_to(ROOT).as_posix() for path in FILES.values() if path.name != "__init__.py")
    assert {room: number for room, number in rooms.items() if number > MODULES} == {}


def test_the_public_names_are_sorted_and_exist() -> None:
    assert streamtopo.__all__ == sorted(streamtopo.__all__)
    assert [name for name in streamtopo.__all__ if not hasattr(streamtopo, name)] == []
