"""Workers of their own processes, killed and stopped at random moments: no record in order is late after a repartition.

STREAMTOPO_LONG=1 runs the long test: 200,000 records, and more kills.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from streamtopo.logs.embedded import EmbeddedLog
from tests.crash.seconds import Faults, Workers, counts_after, create_topics, fill, truth
from tests.long import long


@pytest.mark.parametrize(("chunk", "processes"), [(500, 2), (7, 3)])
def test_no_record_is_late(tmp_path: Path, chunk: int, processes: int) -> None:
    kill_and_compare(tmp_path, chunk, processes, records=12_000, faults=4)


@long
@pytest.mark.parametrize("chunk", [10_000, 500, 50])
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_no_record_is_late_whatever_happens(tmp_path: Path, chunk: int, processes: int) -> None:
    kill_and_compare(tmp_path, chunk, processes, records=200_000, faults=20)


def kill_and_compare(path: Path, chunk: int, processes: int, *, records: int, faults: int) -> None:
    log = EmbeddedLog(path / "log")
    create_topics(log)
    fill(log, 0, records // 2)
    workers = Workers(f"embedded:{path / 'log'}", path / "state", chunk=chunk, processes=processes)
    assert counts_after(log, workers, seed=chunk, records=records, faults=Faults(faults, 1.5)) == truth(records)
    log.close()
