"""Makes docs/promises.md of tests/promises.toml: `python -m tests.docs.promises`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "promises.md"
DECLARED: dict[str, Any] = tomllib.loads((TESTS / "promises.toml").read_text())
LOGS = {"engine": "engine", "embedded": "embedded log", "kafka": "Kafka"}
BEGIN = """# Promises

This page lists what streamtopo promises, and the tests that prove it on each log. The tests run in CI before every
change.

- **proven**: there are tests. Each number is a link to one; hover over it to see its name.
- **missing**: we believe it is true, but no test shows it.
- *does not apply*: the notes below the table say why.

The column *engine* has tests of the engine on a log in memory. This code is the same for all logs. The other tests use
real files, real processes, and a real broker.

[Exactly once](concepts/exactly-once.md), [time](concepts/time.md), [errors](operating/errors.md) and [changing an
application](operating/upgrades.md) explain what the promises mean. This page is made from
[tests/promises.toml](../tests/promises.toml).
"""
PAST = """## Promises that did not hold

No version has been released yet. These errors were found by tests or by users, and are fixed. Each has a test. The
[changelog](../CHANGELOG.md) also lists smaller errors.

| promise | what was wrong | test |
|---|---|---|
"""


def promises() -> list[dict[str, Any]]:
    return [promise for section in DECLARED["section"] for promise in section["promise"]]


def proofs(promise: dict[str, Any]) -> list[str]:
    return [test for log in LOGS if isinstance(promise.get(log), list) for test in promise[log]]


def page() -> str:
    sections = "\n".join(_section(section) for section in DECLARED["section"])
    breaches = "".join(
        f"| [{one['promise']}](#{one['promise']}) | {one['what']} | {_link(one['test'])} |\n"
        for one in DECLARED["breach"]
    )
    return f"{BEGIN}\n{_summary()}\n{sections}\n{PAST}{breaches}"


def _summary() -> str:
    """How many are proven on each log, and which are missing."""
    rows = []
    for log, name in LOGS.items():
        found = [promise for promise in promises() if isinstance(promise.get(log), list)]
        missing = [f"[{promise['id']}](#{promise['id']})" for promise in promises() if log not in promise]
        rows.append(f"| {name} | {len(found)} | {', '.join(missing) or 'none'} |\n")
    return "| | proven | missing |\n|---|--:|---|\n" + "".join(rows)


def _section(section: dict[str, Any]) -> str:
    head = f"## {section['title']}\n\n| promise | {' | '.join(LOGS.values())} |\n|---|---|---|---|\n"
    rows = "".join(
        f'| <a id="{one["id"]}"></a>{one["what"]} | {" | ".join(_cell(one, log) for log in LOGS)} |\n'
        for one in section["promise"]
    )
    notes = "".join(_notes(section))
    return f"{head}{rows}" + (f"\n{notes}" if notes else "")


def _cell(promise: dict[str, Any], log: str) -> str:
    match promise.get(log):
        case None:
            return "**missing**"
        case str():
            return "*does not apply*"
        case tests:
            return "proven: " + ", ".join(_link(test, str(number)) for number, test in enumerate(tests, 1))


def _notes(section: dict[str, Any]) -> Iterator[str]:
    for promise in section["promise"]:
        reasons: dict[str, list[str]] = {}
        for log, name in LOGS.items():
            if isinstance(promise.get(log), str):
                reasons.setdefault(promise[log], []).append(name)
        for reason, names in reasons.items():
            yield f"- *{promise['id']}*, {' and '.join(names)}: {reason}.\n"


def _link(test: str, shown: str | None = None) -> str:
    file, _, function = test.partition("::")
    name = function or file
    return f'[{shown or Path(file).stem}](../tests/{file} "{name}")'


if __name__ == "__main__":
    PAGE.write_text(page())
