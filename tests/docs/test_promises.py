"""The page of promises is that of tests/promises.toml, and each test that it names exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.docs.promises import DECLARED, LOGS, PAGE, TESTS, page, promises, proofs

NAMED = sorted(
    {test for promise in promises() for test in proofs(promise)} | {one["test"] for one in DECLARED["breach"]}
)


def functions(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


def test_the_page_is_made_from_the_file() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.docs.promises"


@pytest.mark.parametrize("test", NAMED)
def test_the_test_exists(test: str) -> None:
    file, _, function = test.partition("::")
    assert (TESTS / file).is_file()
    assert not function or function in functions(TESTS / file)


def test_a_promise_has_a_test_and_nothing_unknown() -> None:
    assert [promise["id"] for promise in promises() if not proofs(promise)] == []
    assert {name for promise in promises() for name in promise} <= {"id", "what", *LOGS}


def test_promises_are_told_apart() -> None:
    ids = [promise["id"] for promise in promises()]
    assert len(ids) == len(set(ids))
    assert {one["promise"] for one in DECLARED["breach"]} <= set(ids)


def test_proofs_on_kafka_use_a_broker() -> None:
    kafka = [test for promise in promises() if isinstance(promise.get("kafka"), list) for test in promise["kafka"]]
    assert [test for test in kafka if not test.startswith(("kafka/", "logs/", "spark/", "cli/shared/"))] == []
