"""The site of the docs is built: every page as HTML and as Markdown, and nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from website.__main__ import address, build
from website.staging import files, place


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Building it fails if a link or an anchor does not exist."""
    return build(tmp_path_factory.mktemp("build"))


def test_each_page_is_there_as_html_and_as_markdown(site: Path) -> None:
    pages = [place(file) for file in files() if file.suffix == ".md"]
    assert len(pages) > 50
    listed = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text())
    assert sorted(listed) == sorted(map(str, pages))
    for page in pages:
        html = site / address(str(page)) / "index.html"
        (markdown,) = re.findall(r'type="text/markdown" href="([^"]+)"', html.read_text())
        assert (html.parent / markdown).resolve() == site / page
        assert (site / page).read_text().startswith("# ")


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert re.findall(r'(?:src|<link [^>]*href)="?https?:[^ >]+', page.read_text()) == []


def test_what_is_searched_has_the_text_of_the_pages(site: Path) -> None:
    assert "is never late, however large the backlog" in (site / "search.json").read_text()


def test_a_link_without_a_target_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("website.staging.moved", lambda page: "# Title\n\n[Somewhere](index.md#else)\n")
    with pytest.raises(SystemExit):
        build(tmp_path)
    assert "anchor does not exist" in capfd.readouterr().err
