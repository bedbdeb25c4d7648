"""streamtopo new: a project of four files that runs, to start from."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from string import Template

import click

from streamtopo.errors import ConfigError

_NAME = re.compile(r"[a-zA-Z]\w*", re.ASCII)

APP = '''"""Adds up the orders of each customer."""

from dataclasses import dataclass

from streamtopo import StreamsBuilder
from streamtopo.aggregators import sum


@dataclass
class Order:
    customer: str
    amount: float


builder = StreamsBuilder("$name")
(
    builder.stream("orders", value=Order)
    .filter(lambda _, order: order.amount > 0)
    .group_by(lambda _, order: order.customer, key=str)
    .aggregate(sum(lambda order: order.amount), name="totals")
    .to_stream()
    .to("customer-totals")
)
topology = builder.build()
'''

TEST = '''"""Tests of the application on the real engine, in memory."""

from $name import Order, topology
from streamtopo.testing import Driver


def test_the_orders_of_a_customer_are_added_up():
    driver = Driver(topology)
    driver.send("orders", Order("ann", 20))
    driver.send("orders", Order("bob", 5))
    driver.send("orders", Order("ann", 22))
    assert driver.read("customer-totals") == [("ann", 20), ("bob", 5), ("ann", 42)]


def test_nothing_is_lost_or_counted_twice_in_a_crash():
    driver = Driver(topology)
    driver.send("orders", Order("ann", 20))
    driver.crash()
    driver.restart()
    driver.send("orders", Order("ann", 22))
    assert driver.store("totals").get("ann") == 42
'''

PYPROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "$distribution"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["streamtopo[web]"]

[project.optional-dependencies]
dev = ["pytest"]

[tool.setuptools]
py-modules = ["$name"]

[tool.streamtopo]  # options of all commands in this folder
log = "embedded:.streamtopo"
web-port = 0  # any free port: `streamtopo query` asks the worker there
"""

README = """# $name

Adds up the orders of each customer: [$name.py]($name.py), with its tests in [test_$name.py](test_$name.py).

Install it, with what its tests need: `pip install -e '.[dev]'`.

Run it. It creates its topics and its state in `.streamtopo`:

```sh
streamtopo worker $name
```

In another terminal, send orders, and query the total:

```sh
echo '{"customer": "ann", "amount": 20}' | streamtopo produce orders --app $name
streamtopo query $name totals ann
streamtopo consume customer-totals --app $name
```

Run the tests:

```sh
pytest
```

The same program runs on Kafka (`pip install 'streamtopo[kafka,spark]'`). `streamtopo broker up` starts a cluster for
development, and prints the variable to set. It needs Java 17, and pyspark for the download.
"""

FILES = {"{}.py": APP, "test_{}.py": TEST, "pyproject.toml": PYPROJECT, "README.md": README}


@click.command()
@click.argument("name")
def new(name: str) -> None:
    """Create the folder NAME with a small application, its test, a pyproject.toml and a README.

    NAME is the name of the module and the application id. The folder is a separate project, also inside another one.

    \b
    Example:
      streamtopo new shop && cd shop && streamtopo worker shop
    """
    _check_name(name)
    folder = Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f'"{name}" exists already, and is not an empty folder; give another name')
    folder.mkdir(exist_ok=True)
    for file, text in FILES.items():
        filled = Template(text).substitute(name=name, distribution=name.replace("_", "-").strip("-"))
        (folder / file.format(name)).write_text(filled, encoding="utf-8")
    if Path("pyproject.toml").exists():
        click.echo(
            f"{name}/ is a project of its own, inside the project in {Path.cwd()}: it has its own log and settings",
            err=True,
        )
    click.echo(f"{name}/: {', '.join(file.format(name) for file in FILES)}")
    click.echo(f"cd {name} && streamtopo worker {name}")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(f'"{name}" cannot be the name of a Python module; try {_suggested(name)}')
    if name == "setup":
        raise ConfigError('pip would run "setup.py" to install the project; try my_setup')
    if _taken(name):
        raise ConfigError(f'"{name}" is the name of a module that is installed already; try {_suggested(name)}')


def _suggested(name: str) -> str:
    words = "_".join(re.findall(r"[a-z0-9]+", name.lower()))
    return (
        words
        if _NAME.fullmatch(words) and not keyword.iskeyword(words) and not _taken(words)
        else f"my_{words or 'app'}"
    )


def _taken(name: str) -> bool:
    """Other programs import this name, and would find the new module."""
    if name in sys.stdlib_module_names:
        return True
    spec = find_spec(name)
    found = spec and spec.origin and Path(spec.origin).parent
    return bool(found) and found not in (Path.cwd(), Path.cwd() / name)
