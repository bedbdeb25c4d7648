"""The experiment that needs a broker: the effect of workers that join and leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.experiments.moving import JOINING, LEAVING, ROWS, observe
from benchmarks.places import Site
from tests.kafka.brokers import emptied
from tests.long import long

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("change", [pytest.param(JOINING, marks=long), LEAVING])
def test_half_of_the_tasks_move(kafka: str, tmp_path: Path, change: str) -> None:
    emptied(kafka).close()
    measures, results = observe(change, Site(tmp_path, f"{kafka}?kafka.group.protocol=consumer"), 2000)
    assert measures["moved"] == 2
    assert 0 < measures["kept p50 ms"] <= measures["kept longest ms"]
    assert 0 < measures["moved p50 ms"] <= measures["moved longest ms"]
    assert results.rows == ROWS + 2000
