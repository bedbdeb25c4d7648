"""How users can write an application, and the errors if it cannot be loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamtopo.engine.loading import load_topology
from streamtopo.errors import TopologyError

Write = Callable[[str, str], None]

TOPOLOGY = "from streamtopo import *\n{name} = Topology('{id}').add_source('in', 'numbers')\n"
BUILDER = "from streamtopo import *\n{name} = StreamsBuilder('{id}')\n{name}.stream('numbers').to('out')\n"


def topology(id: str, name: str = "topology") -> str:
    return TOPOLOGY.format(name=name, id=id)


def builder(id: str, name: str = "builder") -> str:
    return BUILDER.format(name=name, id=id)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write files into the current folder."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write_file


@pytest.mark.parametrize(
    "text",
    ["shop.orders", "shop.orders:topology", "shop/orders.py", "./shop/orders.py", "shop/orders.py:topology"],
)
def test_a_module_of_a_package_is_loaded(write: Write, text: str) -> None:
    write("shop/__init__.py", "")
    write("shop/orders.py", "from shop.prices import price\n" + topology("orders"))
    write("shop/prices.py", "price = 1")
    assert load_topology(text).application_id == "orders"


@pytest.mark.parametrize("text", ["shop", "shop/", "./shop", "shop/__init__.py", "shop:topology"])
def test_a_package_is_loaded(write: Write, text: str) -> None:
    write("shop/__init__.py", topology("whole-shop"))
    assert load_topology(text).application_id == "whole-shop"


def test_a_script_in_another_folder_can_import_its_neighbours(write: Write, tmp_path: Path) -> None:
    write("scripts/beginning.py", "from neighbour import *")
    write("scripts/neighbour.py", topology("next-door"))
    assert load_topology("scripts/beginning.py").application_id == "next-door"
    assert load_topology(str(tmp_path / "scripts" / "beginning.py")).application_id == "next-door"


@pytest.mark.parametrize(
    "content",
    [
        topology("a"),
        builder("a"),
        builder("a", "topology"),
        builder("b") + topology("a", "other"),
        builder("a") + "c = builder",
    ],
)
def test_without_an_attribute_the_only_topology_is_loaded(write: Write, content: str) -> None:
    write("one.py", content)
    assert load_topology("one").application_id == "a"


def test_with_an_attribute_that_one_is_loaded(write: Write) -> None:
    write("many.py", topology("a") + topology("b", "other") + builder("c"))
    assert load_topology("many").application_id == "a"
    assert load_topology("many:other").application_id == "b"
    assert load_topology("many:builder").application_id == "c"


MAKERS = """
def nothing(): pass
def main(): pass
def needs(log, *more, url, size=1): pass
async def later(): pass
"""
MISTAKES = {
    "nowhere": 'no module "nowhere"; run from the folder that contains it',
    "app.nowhere": 'no module "app.nowhere"',
    "": 'no module ""',
    "./nowhere.py": 'no file or folder "nowhere.py"',
    "notes.txt/": '"notes.txt" is not a Python file',
    "plain/": 'folder "plain" has no __init__.py',
    "app:other": 'module "app" has no "other"; it has first, second, builder',
    "app:number": '"app:number" is not a Topology or StreamsBuilder, but of type int; the module has first, second',
    "app:Topology": '"app:Topology" is not a Topology or StreamsBuilder, but the class Topology',
    "app": 'module "app" has first, second, builder; say which: app:first',
    "empty": 'module "empty" has no Topology and no StreamsBuilder; call the topology "topology"',
    "makers": r"no Topology and no StreamsBuilder, but a function \(nothing, later\); say which: makers:nothing",
    "makers:nothing": '"makers:nothing" returned None; let it return the topology',
    "makers:needs": '"makers:needs" is a function that needs "log" and "url"; an application is made without arguments',
    "makers:later": '"makers:later" is a coroutine function; write it with def',
    "./wave.py": '"wave.py" cannot be imported, because the name "wave" is taken by .*wave.py; rename the file',
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_named(write: Write, text: str) -> None:
    write("app.py", topology("a", "first") + topology("b", "second") + builder("c") + "number = 1")
    write("empty.py", "")
    write("makers.py", MAKERS)
    write("notes.txt", "")
    write("plain/x.py", "")
    write("wave.py", "")
    import wave  # noqa: F401

    with pytest.raises(TopologyError, match=MISTAKES[text]) as raised:
        load_topology(text)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("from json import nowhere", "ImportError: cannot import name 'nowhere' from 'json'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("from streamtopo import *\nTopology('no good')", 'TopologyError: application id "no good"'),
    ],
)
def test_a_failing_import_is_reported_with_its_cause(write: Write, content: str, message: str) -> None:
    write("broken.py", content)
    with pytest.raises(TopologyError, match='importing "broken" failed: ') as raised:
        load_topology("broken")
    assert message in str(raised.value)
    assert type(raised.value.__cause__).__name__ == message.partition(":")[0]


def test_a_function_makes_the_topology(write: Write) -> None:
    lines = [f"    {line}" for line in builder("made").replace("*", "StreamsBuilder").splitlines()]
    write("makers.py", "\n".join(["def make(size=1, *more, **options):", *lines, "    return builder"]))
    assert load_topology("makers:make").application_id == "made"
    assert load_topology("./makers.py:make").describe() == load_topology("makers:make").describe()


def test_a_function_that_fails_is_reported_with_its_cause(write: Write) -> None:
    write("makers.py", "def make():\n    1 / 0")
    with pytest.raises(TopologyError, match='calling "makers:make" failed: ZeroDivisionError') as raised:
        load_topology("makers:make")
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_an_empty_topology_is_refused(write: Write) -> None:
    write("idle.py", "from streamtopo import *\nbuilder = StreamsBuilder('idle')")
    with pytest.raises(TopologyError, match="no source"):
        load_topology("idle")
