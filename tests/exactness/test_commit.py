"""However a commit ends, outputs, stores and positions agree: on the real memory log, with disturbed commits."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from streamtopo import StreamsBuilder, Topology
from streamtopo.logs import CommitResult, Outcome
from streamtopo.logs.memory import MemoryLog, MemoryMember
from streamtopo.records import Position, TopicPartition
from streamtopo.stores import StoreSpec
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.testing import Driver, DriverRecord


class DisturbedMember(MemoryMember):
    """The next commit ends in the given way. An unknown commit may have happened or not."""

    ending: str | None = None

    def commit(self, positions: Mapping[TopicPartition, Position]) -> CommitResult:
        ending, DisturbedMember.ending = DisturbedMember.ending, None
        if ending in ("not done", "unknown, not done"):
            outcome = Outcome.NOT_DONE if ending == "not done" else Outcome.UNKNOWN
            return CommitResult(outcome, reason="disturbed")
        committed = super().commit(positions)
        return CommitResult(Outcome.UNKNOWN, reason="disturbed") if ending == "unknown, done" else committed


class DisturbedLog(MemoryLog):
    def join(self, group: str, topics: object, *, address: str = "", exactly_once: bool = True) -> MemoryMember:
        member = super().join(group, topics, address=address)  # type: ignore[arg-type]
        member.__class__ = DisturbedMember
        return member


def counting(application: str = "commit") -> Topology:
    builder = StreamsBuilder(application)
    counts = builder.stream("in", key=str, value=str).group_by(lambda _, word: word, key=str).count(name="counts")
    counts.to_stream().to("out")
    return builder.build()


WORDS = [DriverRecord("in", "k", word, 0) for word in ["a", "b", "a", "c", "a", "b"]]


@pytest.mark.parametrize("ending", ["not done", "unknown, done", "unknown, not done"])
@pytest.mark.parametrize("cache", [0, 100_000])
def test_a_failed_commit_is_repeated_exactly_once(ending: str, cache: int) -> None:
    driver, undisturbed = Driver(counting(), log=DisturbedLog(), cache=cache), Driver(counting(), cache=cache)
    for place in range(len(WORDS)):
        DisturbedMember.ending = ending
        driver.send_all(WORDS[place : place + 1])
        undisturbed.send_all(WORDS[place : place + 1])
    DisturbedMember.ending = None
    assert driver.read("out") == undisturbed.read("out")
    assert list(driver.store("counts").all()) == [("a", 3), ("b", 2), ("c", 1)]


class FullStore(MemoryStore):
    """Simulate a disk that is full for one write."""

    full = False

    def write(
        self, changes: Mapping[bytes, bytes | None], positions: Mapping[str, int], *, as_of: int | None = None
    ) -> None:
        if FullStore.full:
            FullStore.full = False
            raise OSError(28, "No space left on device")
        super().write(changes, positions, as_of=as_of)


class FullDiskDriver(Driver):
    def _open_store(self, stores: tuple[StoreSpec, ...], partition: int) -> MemoryStore:
        return self._stores.setdefault(
            (*(spec.name for spec in stores), partition), FullStore(now=lambda: self.wall_clock_ms)
        )


def test_a_store_write_that_fails_after_the_log_committed(caplog: pytest.LogCaptureFixture) -> None:
    driver, undisturbed = FullDiskDriver(counting()), Driver(counting())
    for place in range(len(WORDS)):
        FullStore.full = True
        driver.send_all(WORDS[place : place + 1])
        undisturbed.send_all(WORDS[place : place + 1])
    assert driver.read("out") == undisturbed.read("out")
    assert list(driver.store("counts").all()) == [("a", 3), ("b", 2), ("c", 1)]
    assert "the store could not be written; it is restored from its changelog" in caplog.text


def test_a_store_behind_its_changelog_catches_up() -> None:
    driver = Driver(counting())
    driver.send_all(WORDS[:3])
    old = {id: (dict(store._rows), dict(store._stamps)) for id, store in driver._stores.items()}
    driver.send_all(WORDS[3:])
    driver.crash()
    for id, (rows, stamps) in old.items():
        store = driver._stores[id] = MemoryStore(now=lambda: 0)
        store._rows, store._stamps = rows, stamps
    driver.restart()
    assert list(driver.store("counts").all()) == [("a", 3), ("b", 2), ("c", 1)]


def test_a_store_ahead_of_its_changelog_is_not_trusted() -> None:
    driver = Driver(counting())
    driver.send_all(WORDS)
    stores = driver._stores
    other = Driver(counting())
    other.send_all(WORDS[:1])
    other.crash()
    other._stores = stores
    other.restart()
    assert list(other.store("counts").all()) == [("a", 1)]


def test_the_changelog_has_every_update_without_cache_and_the_last_with_it() -> None:
    for cache, expected in ((0, [1, 1, 2, 1, 3, 2]), (100_000, [1, 3, 2])):
        driver = Driver(counting(), cache=cache)
        driver.send_all(WORDS)
        logged = driver.log.read(TopicPartition("commit-counts-changelog", 0), 0, 100).columns.values
        assert [int.from_bytes(value or b"", "big") for value in logged] == expected


def test_outputs_are_not_visible_before_the_commit() -> None:
    driver = Driver(counting(), log=DisturbedLog())
    DisturbedMember.ending = "not done"
    driver._append("in", b"k", b"a", 0, (), -1)
    while DisturbedMember.ending:
        driver.worker.run_once()
    assert driver.read("out") == []
    driver.run()
    assert driver.read("out") == [("a", 1)]
