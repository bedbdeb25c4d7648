"""The pages of the comparison show the programs that were run, and count their lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.same.inputs import APPLICATIONS

ROOT = Path(__file__).parents[2]
COMPARE = ROOT / "docs" / "compare"
PAGES = {"words": "word-count", "clicks": "windowed-count", "orders": "enrichment"}
NAMES = {
    "streamtopo": "streamtopo",
    "faust": "Faust",
    "quix": "Quix Streams",
    "bytewax": "Bytewax",
    "kafka_streams": "Kafka Streams",
}


def program(application: str, library: str) -> str:
    file = f"{application.title()}.java" if library == "kafka_streams" else f"{application}.py"
    return (ROOT / "benchmarks" / "same" / "programs" / library / file).read_text()


def lines(application: str, library: str) -> int:
    return sum(1 for line in program(application, library).splitlines() if line.strip())


@pytest.mark.parametrize("library", NAMES)
@pytest.mark.parametrize("application", PAGES)
def test_a_page_has_the_program(application: str, library: str) -> None:
    page = (COMPARE / f"{PAGES[application]}.md").read_text()
    assert f"\n{program(application, library)}```" in page
    (row,) = re.findall(rf"^\| {NAMES[library]} \| (\d+) \|", page, re.MULTILINE)
    assert int(row) == lines(application, library)


@pytest.mark.parametrize("application", PAGES)
def test_the_overview_has_the_lines(application: str) -> None:
    title = PAGES[application].replace("-", " ")
    (row,) = re.findall(rf"^\| lines, {title} \|(.*)\|$", (COMPARE / "index.md").read_text(), re.MULTILINE)
    assert [int(cell) for cell in row.split("|")] == [lines(application, library) for library in NAMES]


def test_each_application_has_a_page() -> None:
    assert PAGES.keys() == APPLICATIONS.keys()
