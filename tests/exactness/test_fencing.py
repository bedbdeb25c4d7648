"""A worker that was paused while its partitions moved commits nothing when it resumes."""

from __future__ import annotations

from unittest.mock import patch

from streamtopo import StreamsBuilder, Topology
from streamtopo.logs.memory import MemoryLog
from streamtopo.testing import Driver


def counting() -> Topology:
    builder = StreamsBuilder("fencing")
    builder.stream("in", key=str, value=str).group_by_key().count(name="counts").to_stream().to("out")
    return builder.build()


def paused_with_work(log: MemoryLog) -> Driver:
    """Return a worker with one processed, uncommitted record, which the group has declared dead."""
    driver = Driver(counting(), log=log)
    driver._append("in", b"k", b"v", 0, (), -1)
    with patch.object(driver.worker._pace, "due", return_value=False):
        while not driver.worker._pace.undurable:
            driver.worker.run_once()
    driver.worker.member.evict()  # type: ignore[attr-defined]
    return driver


def test_a_worker_that_resumes_after_its_partition_moved_commits_nothing() -> None:
    log = MemoryLog()
    zombie = paused_with_work(log)
    successor = Driver(counting(), log=log)
    assert successor.read("out") == [("k", 1)]
    assert zombie.worker.commit() is False
    zombie.run()
    assert successor.read("out") == []
    assert zombie.worker.tasks == {}


def test_a_worker_that_gets_its_partition_back_continues_from_the_others_commit() -> None:
    log = MemoryLog()
    zombie = paused_with_work(log)
    successor = Driver(counting(), log=log)
    successor.send("in", "v", key="k")
    successor.close()
    zombie.run()
    zombie.send("in", "v", key="k")
    assert [value for _, value in zombie.read("out")] == [1, 2, 3]
    assert zombie.store("counts").get("k") == 3


def test_drops_are_counted_by_the_worker_that_committed_them() -> None:
    """Even if another worker has the partition now. Uncommitted records are dropped and counted by the new owner."""
    log = MemoryLog()
    first = Driver(counting(), log=log)
    first.send("in", "v", key=None)
    first._append("in", None, b"v", 0, (), -1)
    with patch.object(first.worker._pace, "due", return_value=False):
        while not first.worker._pace.undurable:
            first.worker.run_once()
    assert first.dropped() == {"null key or value": 2}
    first.worker.member.evict()  # type: ignore[attr-defined]
    second = Driver(counting(), log=log)
    first.run()
    assert first.worker.tasks == {}
    assert (first.dropped(), second.dropped()) == ({"null key or value": 1}, {"null key or value": 1})


def test_two_workers_share_the_partitions_and_hand_them_over() -> None:
    log = MemoryLog()
    first = Driver(counting(), log=log, partitions=4)
    for number in range(20):
        first.send("in", "v", key=f"k{number % 5}")
    second = Driver(counting(), log=log, partitions=4)
    for _ in range(3):
        first.run()
        second.run()
    assert len(first.worker.tasks) == len(second.worker.tasks) == 2
    for number in range(20):
        first._append("in", f"k{number % 5}".encode(), b"v", 0, (), -1)
    first.run()
    second.run()
    first.crash()
    second.run()
    assert dict(second.store("counts").all()) == {f"k{number}": 8 for number in range(5)}
    assert sorted(second.read("out")) == sorted((f"k{key}", count) for key in range(5) for count in range(1, 9))
