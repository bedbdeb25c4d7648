"""Recorded samples of random cases: streamtopo gives the answers of Kafka Streams, however the records are cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.runner import Case
from tests.differential.compare import differences

CASES = Path(__file__).parent / "cases"
SAMPLE: list[Case] = [case for name in ("sample", "mixed") for case in json.loads((CASES / f"{name}.json").read_text())]


@pytest.mark.parametrize("case", SAMPLE, ids=[case["id"] for case in SAMPLE])
def test_the_answer_is_that_of_kafka_streams(case: Case) -> None:
    found = differences(case)
    assert not found, f"{case['topology']}\n{found[0]}"
