"""The configuration of each client of a cluster: measured defaults, then the settings of the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from streamtopo.errors import LogError

PREFIX = "kafka."
ENVIRONMENT = "STREAMTOPO_KAFKA_"
PATIENCE = 120.0
"""Seconds that a call waits for a cluster that cannot be reached."""

_ALL: dict[str, Any] = {
    "client.id": "streamtopo",
    "log_level": 2,  # failures are reported by calls and by `error_cb`; lost connections are normal
    "allow.auto.create.topics": False,
    "reconnect.backoff.max.ms": 1000,  # by default the client may return to a broker only 10 s after it is back
    # A client that starts again from the addresses it was given, as it does when no broker answers, waits forever for
    # the coordinator that it knew before, although that is back (issue 5511 of librdkafka).
    "metadata.recovery.strategy": "none",
    "topic.metadata.refresh.fast.interval.ms": 5,  # else the first records of a partition take 200 ms
}
_CONSUMER: dict[str, Any] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 2,  # with the default, 1000, the throughput is a third
    "fetch.wait.max.ms": 100,
}
_PRODUCER: dict[str, Any] = {
    "enable.idempotence": True,
    "linger.ms": 5,
    # The first request of a transaction is refused while the markers of the last one are written: retry soon.
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 20,
    "queue.buffering.max.messages": 1_000_000,
    # How long the client waits for an unknown topic to appear. With the default, 30,000, a commit would wait that long
    # for a topic that was deleted.
    "topic.metadata.propagation.max.ms": 2000,
}
_AT = " at "
"""Between the name of a client and the address of its process."""
_TRANSACTION_MS = 10_000
_GROUP = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1_000}
_BY_THE_LOG = {
    "bootstrap.servers": "name the brokers in the URL",
    "group.id": "it is the application's id",
    "transactional.id": "workers choose it, so that a new worker ends the transaction of a dead one",
    "enable.auto.commit": "the engine commits",
    "isolation.level": "workers read committed records",
    "partition.assignment.strategy": "only the range assignor keeps topics together that are read together",
    "group.remote.assignor": "only the range assignor keeps topics together that are read together",
}


class ClientSettings:
    """`kafka.*` in the URL, else STREAMTOPO_KAFKA_… in the environment (…_SASL_PASSWORD is sasl.password)."""

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
        """A consumer without a group, whose reads return soon at the end of a partition."""
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
        """The group protocol that the user chose, or None."""
        return self._given.get("group.protocol")

    def of_group(self) -> dict[str, str]:
        """Timeouts that the cluster stores for the group, with the newer protocol."""
        return {f"consumer.{name}": str(self._given.get(name, value)) for name, value in _GROUP.items()}

    def _client(self, conf: dict[str, Any], *, without: AbstractSet[str]) -> dict[str, Any]:
        given = {name: value for name, value in self._given.items() if name in conf or name not in without}
        return {**_ALL, **conf, **given, "bootstrap.servers": self.brokers}


def address_in(client_id: str) -> str:
    """Where the member with this client id answers queries; empty if it does not."""
    address = client_id.partition(_AT)[2]
    return address if address.startswith(("http://", "https://")) else ""


def _from_environment() -> dict[str, str]:
    return {
        name.removeprefix(ENVIRONMENT).lower().replace("_", "."): value
        for name, value in os.environ.items()
        if name.startswith(ENVIRONMENT)
    }
