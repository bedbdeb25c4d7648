"""What each client of a cluster is configured with: what was measured to be right, then what the user sets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from streamtopo.errors import LogError

PREFIX = "kafka."
ENVIRONMENT = "STREAMTOPO_KAFKA_"
PATIENCE = 120.0
"""Seconds that a call waits for a cluster that is away."""

_ALL: dict[str, Any] = {
    "client.id": "streamtopo",
    "log_level": 2,  # what goes wrong is reported by calls and by `error_cb`; connections come and go
    "allow.auto.create.topics": False,
    "reconnect.backoff.max.ms": 1000,  # the default, 10,000, is how long a broker that is back would wait for us
    # A client that begins anew from the addresses it was given, as it does when no broker answers, waits for ever for
    # the coordinator that it knew before, though that is back (librdkafka's issue 5511).
    "metadata.recovery.strategy": "none",
    "topic.metadata.refresh.fast.interval.ms": 5,  # else a partition's first records take 200 ms to come
}
_CONSUMER: dict[str, Any] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 2,  # the default, 1000, cuts the throughput to a third
    "fetch.wait.max.ms": 100,
}
_PRODUCER: dict[str, Any] = {
    "enable.idempotence": True,
    "linger.ms": 5,
    # The first request of a transaction is refused while the last one's markers are written: ask again soon.
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 20,
    "queue.buffering.max.messages": 1_000_000,
    # How long a topic that is not there may still be about to come: the default, 30,000, is how long a commit would
    # wait for one that was deleted.
    "topic.metadata.propagation.max.ms": 2000,
}
_AT = " at "
"""Between what a client is called and the address of its process."""
_TRANSACTION_MS = 10_000
_GROUP = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1_000}
_BY_THE_LOG = {
    "bootstrap.servers": "name the brokers in the url",
    "group.id": "it is the application's id",
    "transactional.id": "workers choose it, so that a replacement ends what the dead one began",
    "enable.auto.commit": "commits are the engine's",
    "isolation.level": "workers read what is committed",
    "partition.assignment.strategy": "only range keeps topics together that are read together",
    "group.remote.assignor": "only range keeps topics together that are read together",
}


class Settings:
    """`kafka.*` of the url, else STREAMTOPO_KAFKA_… of the environment (KAFKA_SASL_PASSWORD is sasl.password)."""

    def __init__(self, brokers: str, options: Mapping[str, str] | None = None) -> None:
        self.brokers = brokers
        self._given = _from_environment() | {
            name.removeprefix(PREFIX): value for name, value in (options or {}).items()
        }
        for name in sorted(self._given.keys() & _BY_THE_LOG):
            raise LogError(f'the client setting "{name}" cannot be chosen: {_BY_THE_LOG[name]}')

    def admin(self) -> dict[str, Any]:
        return self._client({}, without=_CONSUMER.keys() | _PRODUCER.keys() | _GROUP.keys() | {"group.protocol"})

    def reader(self) -> dict[str, Any]:
        """A consumer without a group, whose reads end soon where there is nothing more."""
        conf = self._client(_CONSUMER | {"group.id": "streamtopo-reader"}, without=_PRODUCER.keys() | _GROUP.keys())
        conf.pop("max.poll.interval.ms", None)
        return conf | {"fetch.wait.max.ms": 10, "group.protocol": "classic"}

    def member(self, group: str, protocol: str, address: str = "") -> dict[str, Any]:
        conf = _CONSUMER | {"group.id": group, "group.protocol": protocol}
        if protocol == "consumer":
            conf |= {"group.remote.assignor": "range"}
            conf = self._client(conf, without=_PRODUCER.keys() | _GROUP.keys())
        else:
            conf = self._client(_GROUP | conf | {"partition.assignment.strategy": "range"}, without=_PRODUCER.keys())
        return conf | ({"client.id": f"{conf['client.id']}{_AT}{address}"} if address else {})

    def producer(self, transactional_id: str | None = None, *, within_ms: int = _TRANSACTION_MS) -> dict[str, Any]:
        conf = dict(_PRODUCER)
        if transactional_id:
            conf |= {"transactional.id": transactional_id, "transaction.timeout.ms": within_ms}
        return self._client(conf, without=_CONSUMER.keys() | _GROUP.keys() | {"group.protocol"})

    @property
    def protocol(self) -> str | None:
        """The group protocol, if the user chose one."""
        return self._given.get("group.protocol")

    def of_group(self) -> dict[str, str]:
        """With the newer protocol these are kept by the cluster."""
        return {f"consumer.{name}": str(self._given.get(name, value)) for name, value in _GROUP.items()}

    def _client(self, conf: dict[str, Any], *, without: AbstractSet[str]) -> dict[str, Any]:
        given = {name: value for name, value in self._given.items() if name in conf or name not in without}
        return {**_ALL, **conf, **given, "bootstrap.servers": self.brokers}


def address_in(client_id: str) -> str:
    """Where the member with this client's id answers queries, if it does."""
    address = client_id.partition(_AT)[2]
    return address if address.startswith(("http://", "https://")) else ""


def _from_environment() -> dict[str, str]:
    return {
        name.removeprefix(ENVIRONMENT).lower().replace("_", "."): value
        for name, value in os.environ.items()
        if name.startswith(ENVIRONMENT)
    }
