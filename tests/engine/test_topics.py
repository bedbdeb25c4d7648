"""Internal topics that are there already when a worker starts."""

from __future__ import annotations

import pytest

from streamtopo import StreamsBuilder, Topology, Worker
from streamtopo.errors import PartitionError
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.stores import StoreSpec
from streamtopo.stores.memory import MemoryStore

CHANGELOG = "app-words-changelog"


def counting() -> Topology:
    builder = StreamsBuilder("app")
    builder.stream("in", key=str).group_by_key().count(name="words")
    return builder.build()


def started(log: MemoryLog) -> None:
    def open_store(stores: tuple[StoreSpec, ...], partition: int) -> MemoryStore:
        return MemoryStore()

    Worker(counting(), log, open_store).close()


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create(Topic("in", 1))
    return log


@pytest.mark.parametrize(("config", "kept"), [({}, "delete"), ({"cleanup.policy": "compact,delete"}, "compact,delete")])
def test_a_changelog_that_would_lose_rows_is_refused(log: MemoryLog, config: dict[str, str], kept: str) -> None:
    log.create(Topic(CHANGELOG, 1, config))
    with pytest.raises(PartitionError) as refused:
        started(log)
    assert str(refused.value) == (
        f'internal topic "{CHANGELOG}" exists with cleanup.policy={kept}, and the topology needs compact; keep what '
        f"you need of it, delete it (streamtopo topics delete {CHANGELOG}), and start again"
    )
    log.delete(CHANGELOG)
    started(log)
    assert log.topics()[CHANGELOG].config["cleanup.policy"] == "compact"


def test_a_changelog_keeps_what_else_it_was_created_with(log: MemoryLog, caplog: pytest.LogCaptureFixture) -> None:
    config = {"cleanup.policy": "compact", "delete.retention.ms": "5"}
    log.create(Topic(CHANGELOG, 1, config))
    started(log)
    assert log.topics()[CHANGELOG].config == config
    assert f'internal topic "{CHANGELOG}" keeps the config {config} it was created with' in caplog.text


def test_a_second_start_says_nothing(log: MemoryLog, caplog: pytest.LogCaptureFixture) -> None:
    started(log)
    caplog.clear()
    started(log)
    assert caplog.text == ""
