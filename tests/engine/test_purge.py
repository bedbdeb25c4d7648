"""Records that were read and committed are deleted from repartition topics, and nothing else is."""

from __future__ import annotations

import pytest

from streamtopo import StreamsBuilder
from streamtopo.engine.worker import purge
from streamtopo.errors import LogError
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import TopicPartition
from streamtopo.testing import Driver

REPARTITION, CHANGELOG = "purged-counts-repartition", "purged-counts-changelog"


def starts(log: MemoryLog) -> dict[str, int]:
    return {name: log.start(TopicPartition(name, 0)) for name in log.topics()}


@pytest.mark.parametrize(("every", "start"), [(0.0, 3), (1000.0, 0)])
def test_committed_records_are_deleted_from_repartition_topics(
    monkeypatch: pytest.MonkeyPatch, every: float, start: int
) -> None:
    monkeypatch.setattr(purge, "EVERY", every)
    builder = StreamsBuilder("purged")
    builder.stream("in", key=str, value=str).group_by(lambda key, value: value).count(name="counts")
    log = MemoryLog()
    driver = Driver(builder.build(), log=log)
    for word in ("a", "b", "a"):
        driver.send("in", word)
    assert starts(log) == {"in": 0, REPARTITION: start, CHANGELOG: 0}
    driver.crash()
    driver.restart()
    assert [driver.store("counts").get(word) for word in ("a", "b")] == [2, 1]


class Refusing(MemoryLog):
    refuses = True

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        if self.refuses:
            raise LogError("not now")
        super().delete_before(partition, offset)


def test_a_refused_deletion_is_reported_once_and_retried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(purge, "EVERY", 0.0)
    builder = StreamsBuilder("purged")
    builder.stream("in", key=str, value=str).group_by(lambda key, value: value).count(name="counts")
    log = Refusing()
    driver = Driver(builder.build(), log=log)
    driver.send("in", "a")
    driver.send("in", "b")
    assert starts(log)[REPARTITION] == 0
    assert caplog.messages == ["repartition topics grow until records can be deleted from them: not now"]
    log.refuses = False
    driver.send("in", "c")
    assert starts(log)[REPARTITION] == 3
