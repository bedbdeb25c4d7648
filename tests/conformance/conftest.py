"""Provide the cases of a folder to the tests, and print the results for each operator at the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.batches import Answers, load, records
from tests.conformance.loading import CASES, load_cases
from tests.conformance.runner import Case

OUTCOMES = ("passed", "skipped", "failed")
_CASES = pytest.StashKey[list[Case]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=Path, default=CASES, help="run the cases of this folder instead")


def _folder(config: pytest.Config) -> Path:
    folder: Path = config.getoption("cases", CASES)
    return folder.resolve()


def _cases(config: pytest.Config) -> list[Case]:
    if _CASES not in config.stash:
        config.stash[_CASES] = load_cases(_folder(config))
    return config.stash[_CASES]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, chosen in (("case", lambda case: True), ("batch_case", records)):
        if name in metafunc.fixturenames:
            cases = [case for case in _cases(metafunc.config) if chosen(case)]
            metafunc.parametrize(name, cases, ids=[case["id"] for case in cases])


@pytest.fixture(scope="session")
def answers(request: pytest.FixtureRequest) -> Answers:
    return load(_folder(request.config), _cases(request.config))


# -- the final table


def pytest_terminal_summary(terminalreporter: Any) -> None:
    counts: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    tallies: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for outcome, properties, reason in _results(terminalreporter):
        counts[properties["operator"]][properties["sent"], outcome] += 1
        tallies.update(properties.get("batches", {}))
        reasons.update([reason] if reason and properties["sent"] == "as given" else [])
    if counts:
        terminalreporter.section("conformance with Kafka Streams 4.1.0")
        for line in [*_table(counts), "", *_lines(reasons), "", *_lines(tallies)]:
            terminalreporter.write_line(line)


def _results(terminalreporter: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    for outcome in OUTCOMES:
        for report in terminalreporter.stats.get(outcome, ()):
            properties = dict(report.user_properties)
            if "operator" in properties:
                reason = report.longrepr[2].removeprefix("Skipped: ") if outcome == "skipped" else ""
                yield outcome, properties, reason


def _table(counts: dict[str, Counter[tuple[str, str]]]) -> Iterator[str]:
    """Return the lines of passed, skipped and failed cases: first as given, then sent in batches."""
    yield f"{'operator':28}{'as given':>9}{'skipped':>9}{'failed':>8}    {'batched':>9}{'skipped':>9}{'failed':>8}"
    total: Counter[tuple[str, str]] = Counter()
    for operator in sorted(counts):
        total.update(counts[operator])
        yield _table_line(operator, counts[operator])
    yield _table_line("total", total)


def _table_line(name: str, count: Counter[tuple[str, str]]) -> str:
    given, batched = ([count[sent, outcome] for outcome in OUTCOMES] for sent in ("as given", "in batches"))
    return f"{name:28}{given[0]:9}{given[1]:9}{given[2]:8}    {batched[0]:9}{batched[1]:9}{batched[2]:8}"


def _lines(counts: Counter[str]) -> list[str]:
    return [f"{count:6}  {what}" for what, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
