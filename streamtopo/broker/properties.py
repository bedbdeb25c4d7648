"""The configuration of a node of a development cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Ports(NamedTuple):
    clients: int
    controller: int


HOST = "127.0.0.1"


def properties(number: int, ports: Sequence[Ports], data: str, config: Mapping[str, str]) -> dict[str, str]:
    """The configuration of one node. Each is a broker and a controller, so that any one of several may die."""
    mine = ports[number]
    copies = min(3, len(ports))
    return {
        "process.roles": "broker,controller",
        "node.id": str(number),
        "controller.quorum.voters": ",".join(f"{node}@{HOST}:{at.controller}" for node, at in enumerate(ports)),
        "listeners": f"PLAINTEXT://{HOST}:{mine.clients},CONTROLLER://{HOST}:{mine.controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(copies),
        "offsets.topic.replication.factor": str(copies),
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(min(2, copies)),
        "transaction.state.log.num.partitions": "8",
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": str(min(2, copies)),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        # Groups may use short sessions, so that a crash is detected in seconds.
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        **config,
    }
