"""The pages that are made from the code are those of the code as it is now, and nothing public is missing."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from importlib import import_module

import pytest

from website.api import API, described, members
from website.reference import REFERENCE


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Made in a process of its own: importing Faust warns."""
    program = "import json; from website.reference import pages; print(json.dumps(pages()))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REFERENCE.parents[1], capture_output=True, text=True, check=True
    )
    made: dict[str, str] = json.loads(done.stdout)
    return made


def test_the_pages_are_those_of_the_code(pages: dict[str, str]) -> None:
    different = [name for name, text in pages.items() if (REFERENCE / name).read_text() != text]
    assert different == [], "run python -m website reference"
    assert len(pages) == 3 + len(API)


@pytest.mark.parametrize("module", ["streamtopo", "streamtopo.testing", "streamtopo.spark"])
def test_every_public_name_is_on_a_page(module: str) -> None:
    shown = {name for page in API for names in page.names.values() for name in names}
    assert set(import_module(module).__all__) - shown == set()


def test_everything_on_the_pages_is_described() -> None:
    listed = [
        (name, getattr(import_module(module.strip()), name))
        for page in API
        for module, names in page.names.items()
        if "faust" not in module
        for name in names
    ]
    silent = [name for name, thing in listed if not described(thing)]
    silent += [
        f"{name}.{member}"
        for name, thing in listed
        if inspect.isclass(thing)
        for member, value in members(thing)
        if not described(value)
    ]
    assert silent == []
