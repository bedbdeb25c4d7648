"""The groups of a cluster: their members, positions and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from streamtopo.logs import GroupState
from streamtopo.logs.kafka.admin.requests import ONCE, answered
from streamtopo.logs.kafka.errors import error_of, explained, reason_of
from streamtopo.logs.kafka.settings import address_in
from streamtopo.records import Position, TopicPartition


class GroupAdmin:
    def __init__(self, client: AdminClient) -> None:
        self._client = client

    def all(self, only: str | None = None) -> dict[str, GroupState]:
        with explained("list the groups"):
            return answered(lambda: self._described(only))

    def _described(self, only: str | None) -> dict[str, GroupState]:
        listed = self._client.list_consumer_groups(request_timeout=ONCE).result().valid
        names = sorted(group.group_id for group in listed if only in (None, group.group_id))
        described = self._client.describe_consumer_groups(names, request_timeout=ONCE) if names else {}
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
        found = self._client.list_consumer_group_offsets(wanted, request_timeout=ONCE)[group].result()
        return positions_of(found.topic_partitions)

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Those that it has committed for these partitions."""
        wanted = [ConsumerGroupTopicPartitions(group, [ClientPartition(*partition) for partition in partitions])]
        with explained(f'read the positions of the group "{group}"'):
            found = answered(
                lambda: self._client.list_consumer_group_offsets(wanted, request_timeout=ONCE)[group].result()
            )
        return {partition: position.offset for partition, position in positions_of(found.topic_partitions).items()}

    def delete(self, group: str) -> None:
        with explained(f'delete the positions of the group "{group}"'):
            try:
                answered(lambda: self._client.delete_consumer_groups([group], request_timeout=ONCE)[group].result())
            except KafkaException as error:
                if error_of(error).code() != KafkaError.GROUP_ID_NOT_FOUND:
                    raise

    def place(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        if not positions:
            return
        wanted = [ConsumerGroupTopicPartitions(group, client_partitions(positions))]
        with explained(f'move the group "{group}"'):
            answered(lambda: self._client.alter_consumer_group_offsets(wanted, request_timeout=ONCE)[group].result())

    def configure(self, group: str, config: Mapping[str, str]) -> str | None:
        """Set the config of a group. Return why the cluster refused, or None if it did not."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
        try:
            answered(
                lambda: self._client.incremental_alter_configs([resource], request_timeout=ONCE)[resource].result()
            )
        except KafkaException as error:
            return reason_of(error_of(error))
        return None


def positions_of(client_partitions: Iterable[Any]) -> dict[TopicPartition, Position]:
    return {
        TopicPartition(place.topic, place.partition): Position(place.offset, place.metadata or "")
        for place in client_partitions
        if place.offset >= 0
    }


def client_partitions(positions: Mapping[TopicPartition, Position]) -> list[Any]:
    return [
        ClientPartition(topic, number, offset, metadata) for (topic, number), (offset, metadata) in positions.items()
    ]
