"""Build the site into build/site: pages, search, and for programs the same pages as Markdown with an llms.txt.

A link or an anchor that does not exist is an error (`strict` in mkdocs.yml). `python -m website reference` writes the
pages of docs/reference that are made from the code.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from website.reference import write
from website.staging import ROOT, stage

CONFIG = ROOT / "mkdocs.yml"


def build(folder: Path) -> Path:
    """Build the site below a folder, and return where it is."""
    config = yaml.safe_load(CONFIG.read_text())
    shutil.rmtree(folder, ignore_errors=True)
    stage(folder / "docs")
    complete(config["nav"], [page.relative_to(folder / "docs") for page in sorted((folder / "docs").rglob("*.md"))])
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(config | {"docs_dir": "docs", "site_dir": "site"}))
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(folder / "mkdocs.yml")]
    if subprocess.run(command, cwd=folder).returncode:
        sys.exit("the site was not built")
    write_markdown(folder, config["site_description"], list(menu(config["nav"])))
    return folder / "site"


def complete(nav: list[Any], pages: list[Path]) -> None:
    """Add the pages that mkdocs.yml does not name, each at the end of the section that has others of its folder."""
    listed = list(menu(nav))
    sections = {Path(page).parent: section for section, page in reversed(listed)}
    inside = {name: entries for entry in nav for name, entries in entry.items()}
    for page in pages:
        if str(page) not in [path for _, path in listed]:
            inside[sections.get(page.parent, "Inside")].append(str(page))


def menu(entries: list[Any], section: str = "") -> Iterator[tuple[str, str]]:
    """Yield the section and the path of each page in the menu."""
    for entry in entries:
        if isinstance(entry, str):
            yield section, entry
            continue
        ((name, inside),) = entry.items()
        yield from menu(inside, name) if isinstance(inside, list) else [(section, inside)]


def write_markdown(folder: Path, about: str, pages: list[tuple[str, str]]) -> None:
    """Write each page as Markdown into the site, where its HTML names it, and llms.txt, which lists them."""
    lines, last = ["# streamtopo", "", f"> {about}"], ""
    for section, page in pages:
        text = (folder / "docs" / page).read_text()
        (folder / "site" / page).parent.mkdir(parents=True, exist_ok=True)
        (folder / "site" / page).write_text(text)
        html = folder / "site" / address(page) / "index.html"
        link = f'<link rel="alternate" type="text/markdown" href="{os.path.relpath(page, address(page))}">'
        html.write_text(html.read_text().replace("</head>", f"{link}</head>", 1))
        lines += ["", f"## {section}", ""] if section != last else []
        title = text.partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({page}): {summary(text)}")
        last = section
    (folder / "site" / "llms.txt").write_text("\n".join([*lines, ""]))


def address(page: str) -> Path:
    """Return the folder of a page in the site."""
    path = Path(page)
    return path.parent if path.stem in ("index", "README") else path.with_suffix("")


def summary(text: str) -> str:
    """Return the first sentence of a page."""
    paragraphs = (part for part in text.split("\n\n")[1:] if part[0] not in "#|`-!<")
    words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", next(paragraphs, "")).split()
    return re.split(r"(?<=[.?:]) ", " ".join(words))[0]


if __name__ == "__main__":
    if sys.argv[1:] == ["reference"]:
        write()
    else:
        sys.stdout.write(f"{build(ROOT / 'build') / 'index.html'}\n")
