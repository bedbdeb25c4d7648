"""The topics of a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewTopic,
)

from streamtopo.errors import LogError
from streamtopo.logs import Topic
from streamtopo.logs.kafka.admin.requests import LAG, ONCE, PAUSE, T, answered, wait_until
from streamtopo.logs.kafka.errors import NO_SUCH, error_of, explained
from streamtopo.logs.topics import check_new

_MATTERING = ("cleanup.policy", "delete.retention.ms", "message.timestamp.type")
_OF_TOPICS = {ConfigSource.DYNAMIC_TOPIC_CONFIG.value}
_OF_BROKERS = {
    ConfigSource.DYNAMIC_BROKER_CONFIG.value,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value,
    ConfigSource.STATIC_BROKER_CONFIG.value,
}


class TopicAdmin:
    def __init__(self, client: AdminClient) -> None:
        self._client = client
        self._seen: set[str] = set()

    def seen(self, topic: str) -> bool:
        """Whether the topic existed at the last request about it."""
        return topic in self._seen

    def all(self) -> dict[str, Topic]:
        """All topics but those whose names begin with two underscores, which are internal."""
        with explained("list the topics"):
            found = self._agreed(
                lambda: answered(self._described_all),
                lambda some: set(filter(_is_listed, self._seen | some.keys())) - _there(some).keys(),
            )
        topics = _there(found)
        self._seen |= topics.keys()
        return topics

    def _agreed(self, ask: Callable[[], T], lacks: Callable[[T], AbstractSet[str]]) -> T:
        """Ask again if a broker does not know a topic that another one had: brokers do not learn of topics at once."""
        deadline = time.monotonic() + LAG
        while (lacking := lacks(found := ask())) and time.monotonic() < deadline:
            time.sleep(PAUSE)
        self._seen -= lacking
        return found

    def existing(self, topic: str) -> Topic:
        """A topic that exists, perhaps only for a moment."""
        found: dict[str, Topic] = {}
        wait_until(lambda: found.update(self.all()) or topic in found)
        return found[topic]

    def _described_all(self) -> dict[str, Topic | None]:
        names = list(filter(_is_listed, self._listed()))
        if not names:
            return {}
        described = self._client.describe_topics(TopicCollection(names), request_timeout=ONCE)
        configs = self._client.describe_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names], request_timeout=ONCE
        )
        resources = {resource.name: future for resource, future in configs.items()}
        return {name: self._topic(described[name], resources[name]) for name in sorted(names)}

    def _topic(self, described: Any, config: Any) -> Topic | None:
        """None if it has been deleted since it was listed."""
        try:
            topic = described.result()
            entries = _shown(config)
        except KafkaException as error:
            if error_of(error).code() in NO_SUCH:
                return None
            raise
        if entries is None:
            return Topic(topic.name, len(topic.partitions), id=str(topic.topic_id), config_known=False)
        own = {name: entry.value for name, entry in sorted(entries.items()) if entry.source in _OF_TOPICS}
        inherited = {name: entries[name].value for name in _MATTERING if entries[name].source in _OF_BROKERS}
        return Topic(topic.name, len(topic.partitions), own, str(topic.topic_id), inherited)

    def count(self, topic: str) -> int:
        """The number of its partitions; 0 if the topic does not exist."""
        with explained(f'look for the topic "{topic}"'):
            return self._agreed(lambda: self._count(topic), lambda count: set() if count else self._seen & {topic})

    def _count(self, topic: str) -> int:
        try:
            return answered(lambda: len(self._described(topic).partitions))
        except KafkaException as error:
            if error_of(error).code() in NO_SUCH:
                return 0
            raise

    def _described(self, topic: str) -> Any:
        return self._client.describe_topics(TopicCollection([topic]), request_timeout=ONCE)[topic].result()

    def create(self, topic: Topic) -> bool:
        """Return when all its partitions have leaders; False if the topic existed."""
        if topic.name not in self._seen:
            check_new(topic)
        new = NewTopic(topic.name, topic.partitions, replication_factor=-1, config=dict(topic.config))
        with explained(f'create the topic "{topic.name}"'):
            try:
                answered(lambda: self._client.create_topics([new], request_timeout=ONCE)[topic.name].result())
            except KafkaException as error:
                if error_of(error).code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    wait_until(lambda: topic.name in self._listed())  # another worker may have made it just now
                    self._seen.add(topic.name)
                    return False
                raise
            wait_until(lambda: self._led(topic))
        self._seen.add(topic.name)
        return True

    def _led(self, topic: Topic) -> bool:
        known = self._listed().get(topic.name)
        partitions = known.partitions.values() if known else ()
        return len(partitions) == topic.partitions and all(partition.leader >= 0 for partition in partitions)

    def delete(self, topic: str) -> None:
        with explained(f'delete the topic "{topic}"'):
            try:
                answered(lambda: self._client.delete_topics([topic], request_timeout=ONCE)[topic].result())
            except KafkaException as error:
                if error_of(error).code() in NO_SUCH:
                    raise LogError(
                        f'topic "{topic}" does not exist, so it cannot be deleted; list the topics: '
                        "streamtopo topics list"
                    ) from error
                raise
            self._seen.discard(topic)
            wait_until(lambda: topic not in self._listed())

    def _listed(self) -> Mapping[str, Any]:
        return answered(lambda: self._client.list_topics(timeout=ONCE).topics)


def _is_listed(topic: str) -> bool:
    return not topic.startswith("__")


def _there(found: Mapping[str, Topic | None]) -> dict[str, Topic]:
    return {name: topic for name, topic in found.items() if topic is not None}


def _shown(config: Any) -> Mapping[str, Any] | None:
    """None if we may not see it: often the permission to read or write a topic does not include that."""
    try:
        entries: Mapping[str, Any] = config.result()
    except KafkaException as error:
        if error_of(error).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return None
        raise
    return entries
