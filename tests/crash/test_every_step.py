"""A worker may die at any step of opening, restoring, committing or closing: the results show no trace of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.serdes import INT
from tests.crash.apps import KEYS, PARTITIONS, check, counted, everything, feed, new_log, parts
from tests.crash.lives import DIED, Point, live, work

FED = 150
ENGINE, LOG, STORES = "streamtopo.engine", "streamtopo.logs.embedded", "streamtopo.stores"


def around(place: str, *calls: int) -> list[Point]:
    return [Point(place, when, call) for call in calls for when in ("before", "after")]


AFTER_COMMIT = Point(f"{LOG}.group.member:EmbeddedMember.commit", "after", 2)
AT_THE_END = Point(f"{LOG}.log:EmbeddedLog.close")
POINTS = {
    "starting": [
        *around(f"{LOG}.storage.statements:create", 1),
        *around(f"{LOG}.log:EmbeddedLog.write_note", 1),
        *around(f"{LOG}.group.share:Share._take", 1),
    ],
    "committing": [
        *around(f"{ENGINE}.worker.worker:commit", 3),
        *around(f"{ENGINE}.task.task:Task.take_changes", 3, 9),
        *around(f"{LOG}.group.member:EmbeddedMember.send", 5, 8),
        *around(f"{LOG}.group.member:EmbeddedMember.commit", 1, 3),
        *around(f"{LOG}.storage.statements:append", 7),
        *around(f"{LOG}.group.group_statements:write_positions", 2),
    ],
    "writing the stores": [
        *around(f"{ENGINE}.task.task:Task.write", 4, 8),
        AT_THE_END,
        *around(f"{STORES}.backends.rocks:RocksStore.write", 1, 2, 4),
        *around(f"{STORES}.backends.rocks:_batch", 2, 3),
        AT_THE_END,
        *around(f"{ENGINE}.task.task:Task.committed", 1, 5),
    ],
    "right after the log has it": [AFTER_COMMIT._replace(call=call) for call in (1, 2, 1, 3, 2, 1)],
    "opening": [
        AFTER_COMMIT,
        *around(f"{STORES}.backends.directory:StateDirectory.open", 2),
        *around(f"{STORES}.backends.rocks:RocksStore.__init__", 1),
        *around(f"{LOG}.group.member:EmbeddedMember.committed", 5),
        *around(f"{ENGINE}.task.task:Task.open", 1, 5),
        *around(f"{LOG}.group.member:EmbeddedMember.seek", 1, 6),
    ],
    "restoring": [
        AT_THE_END,
        AFTER_COMMIT,
        *around(f"{ENGINE}.assignment.restoration:Restoration.__post_init__", 1, 2),
        *around(f"{ENGINE}.assignment.restoration:Restoration.step", 1, 3),
        *around(f"{STORES}.backends.rocks:RocksStore.write", 1, 3, 5),
    ],
    "closing": [
        *around(f"{ENGINE}.task.task:Task.close", 1, 5),
        *around(f"{STORES}.backends.rocks:RocksStore.close", 1, 2),
        *around(f"{LOG}.group.member:EmbeddedMember.leave", 1),
    ],
}


@pytest.mark.parametrize("flushed", [False, True], ids=["in memory", "flushed"])
@pytest.mark.parametrize("points", POINTS.values(), ids=POINTS)
def test_deaths_at_each_step_leave_no_trace(tmp_path: Path, points: list[Point], flushed: bool) -> None:
    """The stores' last writes are lost with the process, or all of them are on disk."""
    log = new_log(tmp_path / "log")
    for number, point in enumerate(points, 1):
        feed(log, (number - 1) * FED, number * FED)
        assert live(work, tmp_path / "log", tmp_path / "state", number * FED, flushed, point) == DIED, point
        assert nothing_missing_or_twice(log), point
    assert live(work, tmp_path / "log", tmp_path / "state", len(points) * FED, flushed) == 0
    check(log, tmp_path / "state", len(points) * FED)
    log.close()


def nothing_missing_or_twice(log: EmbeddedLog) -> bool:
    """Return whether the outputs so far are the beginning of the expected ones."""
    negated = [INT.decode_column(everything(log, part).values) for part in parts("negated")]
    numbers = [list(range(-part, -part - PARTITIONS * len(found), -PARTITIONS)) for part, found in enumerate(negated)]
    counts = counted(log).values()
    return (
        negated == numbers and all(found == list(range(1, len(found) + 1)) for found in counts) and len(counts) <= KEYS
    )
