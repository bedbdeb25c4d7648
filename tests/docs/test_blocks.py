"""What a page shows is what happens: its blocks are run, each alone, and the output of its commands is compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from streamtopo.cli import main
from tests.docs.pages import PAGES, blocks, play
from tests.docs.terminals import ROOT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_works_as_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    play(page, tmp_path)


def test_the_picture_is_the_graph_of_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (app,) = (block.code for block in blocks(ROOT / "README.md") if block.title == "shop.py")
    Path("shop.py").write_text(app)
    drawn = CliRunner().invoke(main, ["graph", "shop.py", "--format", "svg"])
    assert drawn.stdout == (ROOT / "docs/start/shop.svg").read_text()
