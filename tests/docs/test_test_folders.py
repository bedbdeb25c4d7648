"""What tests/README.md says: the folders of tests, and which tests run in the same process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parallel import KAFKA, OWN_BROKER, SPARK, scope

TESTS = Path(__file__).parents[1]


def test_each_folder_of_tests_is_on_the_page() -> None:
    rows = [line for line in (TESTS / "README.md").read_text().splitlines() if line.startswith("| `")]
    named = [row.split("`")[1] for row in rows]
    folders = {str(file.parent.relative_to(TESTS.parent)) for file in TESTS.rglob("test_*.py")}
    assert sorted(named) == sorted(folder.removeprefix("tests/") for folder in folders)


def test_tests_that_share_a_broker_run_in_one_process(request: pytest.FixtureRequest) -> None:
    """Each other process would start one; the process of Spark does for its tests."""
    tests = [item for item in request.session.items if {"kafka", "cluster"} & set(getattr(item, "fixturenames", ()))]
    scopes = {scope(test.nodeid) for test in tests if not test.nodeid.startswith(OWN_BROKER)}
    assert scopes <= {KAFKA, SPARK}
