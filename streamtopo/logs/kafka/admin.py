"""What is asked of the cluster rather than of a partition's data: topics, offsets, groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_END,
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
)

from streamtopo.errors import LogError
from streamtopo.logs import GroupState, Topic
from streamtopo.logs.kafka.failing import AWAY, MOVING, NO_SUCH, Complaints, absent, error_of, explained, reason_of
from streamtopo.logs.kafka.settings import PATIENCE, Settings, address_in
from streamtopo.logs.topics import check_new
from streamtopo.records import Position, TopicPartition
from streamtopo.redaction import shown_url

_FIRST = 10.0
"""Seconds to wait for the first answer of a cluster, which may have been named wrongly."""
_ONCE = 10.0
"""Seconds for one request: one that is lost as a broker goes may never be answered."""
_PAUSE = 0.01
_LAG = 2.0
"""Seconds after which a topic that one broker had, and another has not, is gone."""
_MATTERING = ("cleanup.policy", "delete.retention.ms", "message.timestamp.type")
_OF_TOPICS = {ConfigSource.DYNAMIC_TOPIC_CONFIG.value}
_OF_BROKERS = {
    ConfigSource.DYNAMIC_BROKER_CONFIG.value,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value,
    ConfigSource.STATIC_BROKER_CONFIG.value,
}
_START: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_END: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]

T = TypeVar("T")


class Admin:
    def __init__(self, settings: Settings) -> None:
        self._complaints = Complaints()
        self._seen: set[str] = set()
        with explained("be set up"):
            self._client = AdminClient(settings.admin() | {"error_cb": self._complaints})
        self.id = self._cluster_id(settings.brokers)

    def _cluster_id(self, brokers: str) -> str:
        deadline = time.monotonic() + _FIRST
        while True:
            try:
                return str(self._client.list_topics(timeout=_FIRST / 10).cluster_id)
            except KafkaException as error:
                self._client.poll(0)
                refused = self._complaints.refused
                if refused is None and time.monotonic() < deadline:
                    continue
                if refused is not None:
                    raise LogError(f"the brokers at {shown_url(brokers)} refuse: {reason_of(refused)}") from error
                raise LogError(
                    f"no broker answers at {shown_url(brokers)} ({error_of(error).name()}); look whether one runs "
                    "there, and whether that is its address (streamtopo broker up starts one on this machine)"
                ) from error

    # -- topics

    def topics(self) -> dict[str, Topic]:
        """All but those whose names begin with two underscores, which are the cluster's own."""
        with explained("list the topics"):
            found = self._agreed(
                lambda: _answered(self._topics), lambda some: (self._seen | some.keys()) - _there(some).keys()
            )
        topics = _there(found)
        self._seen |= topics.keys()
        return topics

    def _agreed(self, ask: Callable[[], T], lacks: Callable[[T], AbstractSet[str]]) -> T:
        """Brokers learn of topics one after the other: who does not know one that another had is asked again."""
        deadline = time.monotonic() + _LAG
        while (lacking := lacks(found := ask())) and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        self._seen -= lacking
        return found

    def existing(self, topic: str) -> Topic:
        """One that is there, maybe only since a moment ago."""
        found: dict[str, Topic] = {}
        self._wait(lambda: found.update(self.topics()) or topic in found)
        return found[topic]

    def _topics(self) -> dict[str, Topic | None]:
        names = [name for name in self._listed() if not name.startswith("__")]
        if not names:
            return {}
        described = self._client.describe_topics(TopicCollection(names), request_timeout=_ONCE)
        configs = self._client.describe_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names], request_timeout=_ONCE
        )
        resources = {resource.name: future for resource, future in configs.items()}
        return {name: self._topic(described[name], resources[name]) for name in sorted(names)}

    def _topic(self, described: Any, config: Any) -> Topic | None:
        """None if it was deleted since it was listed."""
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
        """How many partitions it has; 0 if it does not exist."""
        with explained(f'look for the topic "{topic}"'):
            return self._agreed(lambda: self._count(topic), lambda count: set() if count else self._seen & {topic})

    def _count(self, topic: str) -> int:
        try:
            return _answered(lambda: len(self._described(topic).partitions))
        except KafkaException as error:
            if error_of(error).code() in NO_SUCH:
                return 0
            raise

    def _described(self, topic: str) -> Any:
        return self._client.describe_topics(TopicCollection([topic]), request_timeout=_ONCE)[topic].result()

    def create(self, topic: Topic) -> bool:
        """False if it was there; returns when all its partitions have leaders."""
        if topic.name not in self._seen:
            check_new(topic)
        new = NewTopic(topic.name, topic.partitions, replication_factor=-1, config=dict(topic.config))
        with explained(f'create the topic "{topic.name}"'):
            try:
                _answered(lambda: self._client.create_topics([new], request_timeout=_ONCE)[topic.name].result())
            except KafkaException as error:
                if error_of(error).code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    self._wait(lambda: topic.name in self._listed())  # another worker may have made it just now
                    self._seen.add(topic.name)
                    return False
                raise
            self._wait(lambda: self._led(topic))
        self._seen.add(topic.name)
        return True

    def _led(self, topic: Topic) -> bool:
        known = self._listed().get(topic.name)
        partitions = known.partitions.values() if known else ()
        return len(partitions) == topic.partitions and all(partition.leader >= 0 for partition in partitions)

    def delete(self, topic: str) -> None:
        with explained(f'delete the topic "{topic}"'):
            try:
                _answered(lambda: self._client.delete_topics([topic], request_timeout=_ONCE)[topic].result())
            except KafkaException as error:
                if error_of(error).code() in NO_SUCH:
                    raise LogError(
                        f'topic "{topic}" does not exist, so it cannot be deleted; list topics to see what there is'
                    ) from error
                raise
            self._seen.discard(topic)
            self._wait(lambda: topic not in self._listed())

    def _listed(self) -> Mapping[str, Any]:
        return _answered(lambda: self._client.list_topics(timeout=_ONCE).topics)

    def _wait(self, condition: Any) -> None:
        """Brokers learn of what the controller did a moment later."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise LogError(
                    f"the cluster did not do it within {PATIENCE:.0f} s; look whether all its brokers are up"
                )
            time.sleep(_PAUSE)

    # -- offsets

    def start(self, partition: TopicPartition) -> int:
        return self.starts([partition])[partition]

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(partitions, _START, IsolationLevel.READ_UNCOMMITTED)

    def end(self, partition: TopicPartition) -> int:
        """Behind transactions that are not decided yet, too."""
        return self._offsets([partition], _END, IsolationLevel.READ_UNCOMMITTED)[partition]

    def stable_end(self, partition: TopicPartition) -> int:
        """Where a reader of committed records must stop for now."""
        return self._offsets([partition], _END, IsolationLevel.READ_COMMITTED)[partition]

    def offset_at(self, partition: TopicPartition, timestamp: int) -> int:
        """Of the first record that is not older; the end if there is none."""
        spec: Any = OffsetSpec.for_timestamp(max(timestamp, 0))
        found = self._offsets([partition], spec, IsolationLevel.READ_UNCOMMITTED)[partition]
        return self.end(partition) if found == OFFSET_END else found

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: Any, isolation: IsolationLevel
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        wanted = set(partitions)
        deadline = time.monotonic() + _LAG

        def asked() -> bool:
            """What moves to another leader is asked for again."""
            places = {Place(*partition): spec for partition in wanted - found.keys()}
            futures = self._client.list_offsets(places, isolation_level=isolation, request_timeout=_ONCE)
            for place, future in futures.items():
                partition = TopicPartition(place.topic, place.partition)
                try:
                    offset = future.result().offset
                    if offset != OFFSET_INVALID:  # else the broker went away; the client does not say so
                        found[partition] = offset
                except KafkaException as error:
                    code = error_of(error).code()
                    known = partition.topic in self._seen and time.monotonic() < deadline
                    if code in NO_SUCH and not known:
                        raise absent(partition) from error
                    if code not in NO_SUCH | MOVING | AWAY:
                        raise
                    if code in MOVING:
                        self._learn_leaders(partition.topic)
            return len(found) == len(wanted)

        with explained(f"look up the offsets of {', '.join(map(str, sorted(wanted)))}"):
            self._wait(asked)
        return found

    def delete_before(self, partition: TopicPartition, offset: int) -> bool:
        """False if there is nothing at the offset yet."""
        place = Place(*partition, offset)
        with explained(f"delete records of {partition}"):
            try:
                self._client.delete_records([place], request_timeout=_ONCE)[place].result()
            except KafkaException as error:
                code = error_of(error).code()
                if code == KafkaError.OFFSET_OUT_OF_RANGE:
                    return False
                if code in MOVING:
                    self._learn_leaders(partition.topic)  # for the next try
                raise
        return True

    def _learn_leaders(self, topic: str) -> None:
        """The client does not ask again on its own: it would go on with a leader of before for a quarter of an hour."""
        with suppress(KafkaException):
            self._client.list_topics(topic, timeout=_ONCE)

    # -- groups

    def groups(self, only: str | None = None) -> dict[str, GroupState]:
        with explained("list the groups"):
            return _answered(lambda: self._groups(only))

    def _groups(self, only: str | None) -> dict[str, GroupState]:
        listed = self._client.list_consumer_groups(request_timeout=_ONCE).result().valid
        names = sorted(group.group_id for group in listed if only in (None, group.group_id))
        described = self._client.describe_consumer_groups(names, request_timeout=_ONCE) if names else {}
        return {name: self._state(name, described[name].result().members) for name in names}

    def _state(self, group: str, members: Iterable[Any]) -> GroupState:
        owned = {
            member.member_id: frozenset(
                TopicPartition(p.topic, p.partition) for p in member.assignment.topic_partitions
            )
            for member in members
        }
        addresses = {member.member_id: address for member in members if (address := address_in(member.client_id))}
        return GroupState(owned, self._positions(group), addresses)

    def _positions(self, group: str) -> dict[TopicPartition, Position]:
        wanted = [ConsumerGroupTopicPartitions(group)]
        found = self._client.list_consumer_group_offsets(wanted, request_timeout=_ONCE)[group].result()
        return positions_of(found.topic_partitions)

    def delete_group(self, group: str) -> None:
        with explained(f'delete the positions of the group "{group}"'):
            try:
                _answered(lambda: self._client.delete_consumer_groups([group], request_timeout=_ONCE)[group].result())
            except KafkaException as error:
                if error_of(error).code() != KafkaError.GROUP_ID_NOT_FOUND:
                    raise

    def place_group(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        if not positions:
            return
        wanted = [ConsumerGroupTopicPartitions(group, places(positions))]
        with explained(f'move the group "{group}"'):
            _answered(lambda: self._client.alter_consumer_group_offsets(wanted, request_timeout=_ONCE)[group].result())

    def configure_group(self, group: str, config: Mapping[str, str]) -> str | None:
        """Why the cluster would not; None if it did."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
        try:
            _answered(
                lambda: self._client.incremental_alter_configs([resource], request_timeout=_ONCE)[resource].result()
            )
        except KafkaException as error:
            return reason_of(error_of(error))
        return None


def _there(found: Mapping[str, Topic | None]) -> dict[str, Topic]:
    return {name: topic for name, topic in found.items() if topic is not None}


def _shown(config: Any) -> Mapping[str, Any] | None:
    """None if we may not see it: who may read a topic, or write to it, often may not."""
    try:
        entries: Mapping[str, Any] = config.result()
    except KafkaException as error:
        if error_of(error).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return None
        raise
    return entries


def _answered(ask: Callable[[], T]) -> T:
    """A cluster that is away is asked again when it is back, as what it was asked before is lost."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error_of(error).code() not in AWAY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)


def positions_of(places: Iterable[Any]) -> dict[TopicPartition, Position]:
    return {
        TopicPartition(place.topic, place.partition): Position(place.offset, place.metadata or "")
        for place in places
        if place.offset >= 0
    }


def places(positions: Mapping[TopicPartition, Position]) -> list[Any]:
    return [Place(topic, number, offset, metadata) for (topic, number), (offset, metadata) in positions.items()]
