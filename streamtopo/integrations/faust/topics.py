"""Topics for Faust: created when they are first needed; their partition counts are remembered."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import count
from typing import Any

from faust.types import AppT
from mode.utils.times import Seconds, want_seconds

from streamtopo.errors import LogError
from streamtopo.integrations.faust.log_thread import LogThread
from streamtopo.logs import Log, Topic
from streamtopo.partitioning import partition_of


class Topics:
    """Records without a key are spread over the partitions in turn."""

    def __init__(self, app: AppT, log: Log) -> None:
        self._app = app
        self._log = log
        self._partitions: dict[str, int] = {}
        self._keyless = count(random.randrange(1 << 16))

    def partitions(self, topic: str) -> int | None:
        if topic not in self._partitions:
            self._partitions = {name: known.partitions for name, known in self._log.topics().items()}
        return self._partitions.get(topic)

    def ensure(self, topic: str) -> int:
        """The partition count of a topic; a missing topic is created, as a broker would, with the count of the app."""
        partitions = self.partitions(topic)
        if partitions is None:
            self.create(topic, self._app.conf.topic_partitions, {})
            partitions = self.partitions(topic)
        if partitions is None:
            raise LogError(f'topic "{topic}" does not exist, and topic_allow_declare is off; create it')
        return partitions

    def create(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        """A topic that exists does not change, as Faust expects it from a broker."""
        if not self._app.conf.topic_allow_declare or self.partitions(topic) is not None:
            return
        try:
            self._log.create(Topic(topic, partitions, config))
        except LogError:
            if topic not in self._log.topics():  # else another worker has created it, with another config
                raise

    def partition(self, topic: str, key: bytes | None) -> int:
        partitions = self.ensure(topic)
        settings: Any = self._app.conf
        choose = settings.producer_partitioner
        if choose is not None:
            return int(choose(key, list(range(partitions)), list(range(partitions))))
        return next(self._keyless) % partitions if key is None else partition_of(key, partitions)


class TopicsMade:
    """Common to consumers and producers of Faust: both can create topics."""

    _log_thread: LogThread
    _topics: Topics

    async def create_topic(
        self,
        topic: str,
        partitions: int,
        replication: int,
        *,
        config: Mapping[str, Any] | None = None,
        timeout: Seconds = 30.0,
        retention: Seconds | None = None,
        compacting: bool | None = None,
        deleting: bool | None = None,
        ensure_created: bool = False,
    ) -> None:
        wanted = config_of(config, retention, compacting, deleting)
        await self._log_thread.do(self._topics.create, topic, partitions, wanted)


def config_of(
    config: Mapping[str, Any] | None, retention: Seconds | None, compacting: bool | None, deleting: bool | None
) -> dict[str, str]:
    """Faust's arguments as a topic's config, under Kafka's names."""
    policies = [name for name, wanted in (("compact", compacting), ("delete", deleting)) if wanted]
    asked: dict[str, Any] = {}
    if policies:
        asked["cleanup.policy"] = ",".join(policies)
    if retention:
        asked["retention.ms"] = int(want_seconds(retention) * 1000)
    return {name: str(value) for name, value in {**asked, **(config or {})}.items()}
