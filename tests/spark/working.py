"""A worker that processes all records of an embedded log."""

from __future__ import annotations

import time

from streamtopo import Topology, Worker
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import TopicPartition
from streamtopo.stores.backends.memory import MemoryStore


def work(log: EmbeddedLog, topology: Topology) -> None:
    worker = Worker(topology, log, lambda stores, partition: MemoryStore(), commit_pause=0)
    deadline = time.monotonic() + 120
    while worker.run_once(0) or _lag(log, topology):
        worker.run_once(0.01)
        assert time.monotonic() < deadline
    worker.close()


def _lag(log: EmbeddedLog, topology: Topology) -> int:
    group = log.groups().get(topology.application_id)
    positions = group.positions if group else {}
    read = {topology.topic_of(name) for source in topology.sources for name in source.topics}
    parts = [TopicPartition(name, number) for name in read for number in range(log.topics()[name].partitions)]
    return sum(log.end(part) - (positions[part].offset if part in positions else 0) for part in parts)
