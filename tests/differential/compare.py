"""Compare a random case with the answer of Kafka Streams: record by record, and in one batch cut into chunks."""

from __future__ import annotations

from typing import Any

from tests.conformance import batches, runner
from tests.conformance.batches import Answer
from tests.conformance.runner import Case, rows_of


def answered(case: Case, answer: dict[str, Any]) -> Case | None:
    """Return the case with its answer, as conformance cases have it; None if Kafka Streams could not give one."""
    if {"errors", "build_error", "driver_error"} & answer.keys():
        return None
    return {**case, "expected_after_each": answer["groups"]}


def differences(case: Case) -> list[str]:
    """Compare batches only if no task queries another: then records of one topic give the same rows in any chunks."""
    case = {**case, "expected": [row for group in case["expected_after_each"] for row in group]}
    found = runner.differences(case)
    together = all(step["op"] != "fk_join" for step in case["params"]["steps"])
    if together and len({record["topic"] for record in case["inputs"]}) == 1:
        answer, ordered = Answer(rows_of(case["expected"])), case["order"] == "strict"
        for chunk in (3, 10_000):
            found += batches.differences(case, 0, answer, ordered=ordered, chunk=chunk)
    return found
