"""The admin client of a cluster: its id, and requests about its topics, offsets and groups."""

from __future__ import annotations

import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streamtopo.errors import LogError
from streamtopo.logs.kafka.admin.groups import GroupAdmin
from streamtopo.logs.kafka.admin.offsets import OffsetAdmin
from streamtopo.logs.kafka.admin.topics import TopicAdmin
from streamtopo.logs.kafka.errors import ClientErrors, error_of, explained, reason_of
from streamtopo.logs.kafka.settings import ClientSettings
from streamtopo.settings.redaction import shown_url

_FIRST = 10.0
"""Seconds to wait for the first answer of a cluster: its address may be wrong."""


class Admin:
    def __init__(self, settings: ClientSettings) -> None:
        self._errors = ClientErrors()
        with explained("be set up"):
            self._client = AdminClient(settings.admin() | {"error_cb": self._errors})
        self.id = self._cluster_id(settings.brokers)
        self.topics = TopicAdmin(self._client)
        self.offsets = OffsetAdmin(self._client, self.topics)
        self.groups = GroupAdmin(self._client)

    def _cluster_id(self, brokers: str) -> str:
        deadline = time.monotonic() + _FIRST
        while True:
            try:
                return str(self._client.list_topics(timeout=_FIRST / 10).cluster_id)
            except KafkaException as error:
                self._client.poll(0)
                refused = self._errors.refused
                if refused is None and time.monotonic() < deadline:
                    continue
                if refused is not None:
                    raise LogError(
                        f"the brokers at {shown_url(brokers)} refuse the connection: {reason_of(refused)}"
                    ) from error
                raise LogError(
                    f"no broker answers at {shown_url(brokers)} ({error_of(error).name()}); check that one runs there, "
                    "and that this is its address (streamtopo broker up starts one on this machine)"
                ) from error
