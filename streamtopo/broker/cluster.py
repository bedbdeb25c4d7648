"""A development cluster in a directory: started, stopped, and its status."""

from __future__ import annotations

import base64
import fcntl
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from streamtopo.broker.downloads import Say, jars, unsaid
from streamtopo.broker.java import find_java
from streamtopo.broker.node import Node, check_free, free_port, stop
from streamtopo.broker.properties import HOST, Ports, properties
from streamtopo.errors import BrokerError
from streamtopo.private_directories import make_private

PORT = 9092


class NodeState(NamedTuple):
    address: str
    pid: int | None
    """None if the broker is not running."""
    log: str


class Cluster:
    """The data stays in the directory when the cluster is stopped; to delete the cluster, delete the directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file = directory / "cluster.json"

    def up(
        self,
        brokers: int | None = None,
        *,
        port: int | None = None,
        config: Mapping[str, str] | None = None,
        kafka_home: Path | None = None,
        say: Say = unsaid,
    ) -> str:
        """Start the brokers that are not running, and wait for them; return the address. Port 0 means any free port.

        `say` is told what is being done, as this can take minutes.
        """
        java = find_java()
        with self._alone():
            ports = self._ports(brokers, port)
            nodes = self._nodes(len(ports))
            stopped = [number for number, node in enumerate(nodes) if node.pid is None]
            if stopped:
                for number in stopped:
                    for taken in ports[number]:
                        check_free(taken)
                found = jars(java, kafka_home, say)
                say(f"starting Apache Kafka in {self.directory}", "")
                id = self._keep(ports)
                for number in stopped:
                    data = str(nodes[number].directory / "data")
                    nodes[number].start(java, found, properties(number, ports, data, config or {}), id)
            for node in nodes:
                node.wait_until_started()
        return self.address

    def down(self) -> bool:
        """Stop the brokers; False if none was running."""
        if not self.exists:
            return False
        with self._alone():
            running = [node for node in self.nodes() if node.pid is not None]
            stop(running)
        return bool(running)

    def status(self) -> list[NodeState]:
        addresses = self.address.split(",") if self.exists else []
        return [
            NodeState(address, node.pid, str(node.log)) for address, node in zip(addresses, self.nodes(), strict=True)
        ]

    @property
    def exists(self) -> bool:
        return self._file.exists()

    @property
    def address(self) -> str:
        """The address for clients: host and port of each broker."""
        return ",".join(f"{HOST}:{clients}" for clients, _ in self._known()["ports"])

    def nodes(self) -> list[Node]:
        return self._nodes(len(self._known()["ports"]) if self.exists else 0)

    def _nodes(self, count: int) -> list[Node]:
        return [Node(self.directory / f"node-{number}") for number in range(count)]

    def _known(self) -> dict[str, Any]:
        return dict(json.loads(self._file.read_text()))

    def _ports(self, brokers: int | None, port: int | None) -> list[Ports]:
        """The ports that were chosen when the cluster was created."""
        if not self.exists:
            return [_ports(PORT if port is None else port, number) for number in range(brokers or 1)]
        ports = [Ports(*pair) for pair in self._known()["ports"]]
        other = "choose another directory (--dir), or stop this cluster and delete its directory"
        if brokers not in (None, len(ports)):
            raise BrokerError(f"the cluster in {self.directory} has {len(ports)} brokers, not {brokers}; {other}")
        if port and port != ports[0].clients:
            raise BrokerError(f"the cluster in {self.directory} is on port {ports[0].clients}, not {port}; {other}")
        return ports

    def _keep(self, ports: list[Ports]) -> str:
        """Create the cluster, after all that can fail: until then another number of brokers or port can be chosen."""
        if not self.exists:
            id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            self._file.write_text(json.dumps({"id": id, "ports": ports}))
        return str(self._known()["id"])

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            make_private(self.directory)
            lock = (self.directory / "lock").open("w")
        except OSError as error:
            raise BrokerError(
                f"the cluster cannot be stored in {self.directory}: {error.strerror}; choose another directory: --dir "
                "DIRECTORY"
            ) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _ports(first: int, number: int) -> Ports:
    if first == 0:
        return Ports(free_port(), free_port())
    return Ports(first + 2 * number, first + 2 * number + 1)
