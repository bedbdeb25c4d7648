"""A recorded sample of random tables: streamtopo gives the answers of Kafka Streams, record by record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance import runner
from tests.conformance.runner import Case

SAMPLE: list[Case] = json.loads((Path(__file__).parent / "cases" / "tables.json").read_text())


@pytest.mark.parametrize("case", SAMPLE, ids=[case["id"] for case in SAMPLE])
def test_the_answer_is_that_of_kafka_streams(case: Case) -> None:
    expected = [row for group in case["expected_after_each"] for row in group]
    found = runner.differences({**case, "expected": expected})
    assert not found, f"{case['topology']}\n{found[0]}"
