"""Every case recorded from Kafka Streams 4.1.0: input by input, and in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.conformance import batches, runner
from tests.conformance.batches import Answers, Comparison
from tests.conformance.runner import Case
from tests.conformance.topologies import build
from tests.conformance.unsupported import Unsupported

Record = Callable[[str, object], None]
Result = TypeVar("Result")

_NOT_LOST = "no window is lost: rows are emitted before the segment that stores them expires, however far time jumps"
NOT_COPIED: dict[str, str] = {
    "extra-emit-final-jump-lost": _NOT_LOST,
    "extra-emit-final-jump-lost-sliding": _NOT_LOST,
}
"""Cases with a quirk of Kafka Streams that streamtopo does not copy, and why."""
WRONG: dict[str, str] = {
    "extra-emit-final-order-hopping": f"{_NOT_LOST}; Kafka Streams loses [0, 10) here, though the case is about order",
    "window-emit-final-3": "rows are emitted when windows close; Kafka Streams checks only once a second of wall clock",
}
"""Cases whose authors saw no quirk, and why Kafka Streams is wrong."""


def test_case_as_given(case: Case, record_property: Record) -> None:
    record_property("operator", case["operator"])
    record_property("sent", "as given")
    skip_decided(case)
    judge(case, supported(lambda: runner.differences(case)))


def test_case_in_two_batches(batch_case: Case, answers: Answers, record_property: Record) -> None:
    """One batch, and two batches cut at every position."""
    send(batch_case, list(range(len(batches.records(batch_case)))), 10_000, answers, record_property)


@pytest.mark.parametrize("chunk", [1, 2])
def test_case_in_chunks(batch_case: Case, chunk: int, answers: Answers, record_property: Record) -> None:
    """One batch; results do not depend on where the engine cuts it."""
    send(batch_case, [0], chunk, answers, record_property)


def send(case: Case, cuts: list[int], chunk: int, answers: Answers, record_property: Record) -> None:
    record_property("operator", case["operator"])
    record_property("sent", "in batches")
    skip_decided(case)
    topology = supported(lambda: build(case["params"])).topology
    found: list[str] = []
    tally: Counter[Comparison] = Counter()
    for cut in cuts:
        answer = batches.answer_for(case, cut, answers)
        comparison = batches.comparison(topology, case, cut, answer)
        tally[comparison] += 1
        if comparison in batches.COMPARED:
            found += batches.differences(case, cut, answer, ordered=comparison is Comparison.ROWS, chunk=chunk)
    record_property("batches", {kind.value: number for kind, number in tally.items()})
    judge(case, found)
    if not any(tally[kind] for kind in batches.COMPARED):
        pytest.skip(next(iter(tally)).value)


def supported(act: Callable[[], Result]) -> Result:
    try:
        return act()
    except Unsupported as lacking:
        pytest.skip(str(lacking))


THROTTLED = "left out: a throttle by the wall clock, where results would depend on the speed of records"


def skip_decided(case: Case) -> None:
    if case["id"] in WRONG:
        pytest.skip(WRONG[case["id"]])
    if case["params"].get("emit_interval_ms"):
        pytest.skip(THROTTLED)
    if case["id"] in NOT_COPIED:
        assert case.get("kafka_quirk"), "only documented quirks are left out"
        pytest.skip(NOT_COPIED[case["id"]])


def judge(case: Case, found: list[str]) -> None:
    """Report the first difference, and the number of the others."""
    if found:
        more = f"\n… and {len(found) - 1} more" if len(found) > 1 else ""
        pytest.fail(f"{case['id']}: {case['topology']}\n{found[0]}{more}", pytrace=False)
