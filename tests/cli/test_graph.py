"""streamtopo graph: formats and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.wordcount import topology
from streamtopo.cli.graph import SUFFIXES
from streamtopo.drawing import FORMATS
from tests.cli.conftest import ROOT, Run


@pytest.fixture(autouse=True)
def _in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_every_format_has_a_suffix() -> None:
    assert sorted(SUFFIXES.values()) == sorted(FORMATS)


@pytest.mark.parametrize("form", FORMATS)
def test_the_format_can_be_given(run: Run, form: str) -> None:
    result = run("graph", "apps.wordcount", "--format", form)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == FORMATS[form](topology)


def test_the_default_format_is_text(run: Run) -> None:
    assert run("graph", "apps/wordcount").stdout == run("graph", "apps.wordcount:builder", "-o", "-").stdout
    assert run("graph", "apps/wordcount").stdout == topology.describe()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_suffix_of_the_file_selects_the_format(run: Run, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"drawn{suffix}"
    result = run("graph", "apps.wordcount", "-o", str(file))
    assert (result.exit_code, result.output) == (0, "")
    assert file.read_text() == FORMATS[SUFFIXES[suffix]](topology)


def test_a_given_format_has_priority_over_the_suffix(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "drawn.svg"
    run("graph", "apps.wordcount", "--format", "dot", "--output", str(file))
    assert file.read_text() == FORMATS["dot"](topology)


def test_a_file_that_cannot_be_written_is_named(run: Run, tmp_path: Path) -> None:
    result = run("graph", "apps.wordcount", "-o", str(tmp_path / "no" / "drawn.svg"))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: Could not open file")
