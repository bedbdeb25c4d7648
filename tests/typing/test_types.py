"""What mypy and pyright say about the programs of this folder: nothing if they are right, something at each mistake."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.docs.pages import blocks
from tests.typing.programs import Customer, Order, all_of_them

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = [HERE / "api.py", HERE / "programs.py", HERE / "mistakes.py"]
PAGE = ROOT / "docs/guides/typing.md"


class Place(NamedTuple):
    file: str
    line: int


def found_by_mypy(files: list[Path]) -> dict[Place, str]:
    text = output_of("mypy", "--output=json", *map(str, files))
    found: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    return {Place(Path(one["file"]).name, one["line"]): one["message"] for one in found if one["severity"] == "error"}


def found_by_pyright(files: list[Path]) -> dict[Place, str]:
    text = output_of("pyright", "--outputjson", f"--pythonpath={sys.executable}", *map(str, files))
    found: list[dict[str, Any]] = json.loads(text)["generalDiagnostics"]
    return {Place(Path(one["file"]).name, one["range"]["start"]["line"] + 1): one["message"] for one in found}


def output_of(checker: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", checker, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, f"{checker} found no mistake, or failed: {done.stdout}{done.stderr}"
    return done.stdout


def marked(checker: str, files: list[Path]) -> set[Place]:
    """The lines that are errors for all checkers, and for this one."""
    mark = re.compile(rf"  # error(?! in)|  # error in {checker}$")
    lines = [(file, enumerate(file.read_text().splitlines(), start=1)) for file in files]
    return {Place(file.name, number) for file, all in lines for number, line in all if mark.search(line)}


@pytest.mark.parametrize("find", [found_by_mypy, found_by_pyright])
def test_each_mistake_is_found_and_nothing_else(find: Callable[[list[Path]], dict[Place, str]], tmp_path: Path) -> None:
    page = tmp_path / "typing_md.py"
    page.write_text("\n\n".join(["# pyright: strict", *(block.code for block in blocks(PAGE))]))
    files = [*FILES, page]
    found, expected = find(files), marked(find.__name__.removeprefix("found_by_"), files)
    assert {place: message for place, message in found.items() if place not in expected} == {}
    assert expected - found.keys() == set()


def test_the_programs_run() -> None:
    driver = all_of_them()
    driver.send("customers", Customer("Ann", "Paris"), key="ann")
    driver.send("orders", Order("ann", 1, 100, ["Bread"]), key="1")
    assert driver.read("sold-per-second") == [("PARIS/BREAD", 1 / 3600)]
