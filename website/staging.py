"""The pages of the site, in the places that they have there, with links that fit these places.

README.md is the site's first page, and the folders of docs/ are those of the site. Pages from elsewhere come with them.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
ELSEWHERE = ["README.md", "CHANGELOG.md", "tests/README.md", "benchmarks/README.md", "benchmarks/peers/README.md"]
PICTURES = ["benchmarks/peers/last.svg", "benchmarks/peers/busy.svg"]
LINK = re.compile(
    r"""(?P<text>\[(?:[^][]|\[[^][]*\])*\])\((?P<target>[^)#\s:]+)(?P<anchor>\#[^)\s]*)?(?:\ "(?P<title>[^"]*)")?\)
    |src="(?P<source>[^":]+)" """,
    re.VERBOSE,
)


def stage(folder: Path) -> None:
    """Copy all pages and pictures into a folder."""
    for file in files():
        target = folder / place(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            target.write_text(moved(file))
        else:
            shutil.copy(ROOT / file, target)


def files() -> list[Path]:
    """Return the files of the site, as paths in the repository."""
    docs = [file.relative_to(ROOT) for file in sorted((ROOT / "docs").rglob("*")) if file.is_file()]
    return [*docs, *map(Path, ELSEWHERE), *map(Path, PICTURES)]


def place(file: Path) -> Path:
    """Return where a file of the repository is in the site."""
    if file == Path("README.md"):
        return Path("index.md")
    return file.relative_to("docs") if file.parts[0] == "docs" else file


def moved(page: Path) -> str:
    """Return the text of a page, with links that start at its place in the site.

    What a link names may be in the repository only, such as a module: then its text stays, with its title.
    """
    known = set(files())

    def link(found: re.Match[str]) -> str:
        named = found["target"] or found["source"]
        target = Path(os.path.normpath(page.parent / named))
        new = os.path.relpath(place(target), place(page).parent) if target in known else named
        if found["source"]:
            return f'src="{new}"'
        text, title = found["text"], found["title"]
        if target not in known and (ROOT / target).exists():
            return f'<abbr title="{title}">{text[1:-1]}</abbr>' if title else text[1:-1]
        return f"{text}({new}{found['anchor'] or ''})"

    return LINK.sub(link, (ROOT / page).read_text())
