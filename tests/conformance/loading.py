"""Load the cases of a folder."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance.functions import learn
from tests.conformance.runner import Case

CASES = Path(__file__).parent / "cases"


def load_cases(folder: Path) -> list[Case]:
    learn(folder)
    files = (path for path in sorted(folder.glob("*.json")) if path.name != "functions.json")
    return [case for path in files for case in json.loads(path.read_text())]
