"""The generated pages of docs/reference: `python -m website reference` writes them."""

from __future__ import annotations

import re

from website.api import API, api_page
from website.commands import cli_page, options_table
from website.operators import operators_page
from website.staging import ROOT

REFERENCE = ROOT / "docs" / "reference"


def pages() -> dict[str, str]:
    """Return the text of each page, by its path below docs/reference."""
    options = (REFERENCE / "options.md").read_text()
    table = f"<!-- generated -->\n{options_table()}\n<!-- end -->"
    return {
        "options.md": re.sub(r"<!-- generated -->.*<!-- end -->", lambda _: table, options, flags=re.DOTALL),
        "cli.md": cli_page(),
        "operators.md": operators_page(),
        **{f"api/{page.file}.md": api_page(page) for page in API},
    }


def write() -> None:
    for name, text in pages().items():
        (REFERENCE / name).parent.mkdir(exist_ok=True)
        (REFERENCE / name).write_text(text)
