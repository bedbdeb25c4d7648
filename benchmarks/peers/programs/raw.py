"""The workloads with the plain client, doing no more than one job needs: the upper limit for Python.

python -m benchmarks.peers.programs.raw WORKLOAD BROKERS GROUP INPUT OUTPUT exactly-once|at-least-once
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from typing import Any

import orjson
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks.data import PARTITIONS
from benchmarks.workloads.map_filter import LEAST, in_cents
from streamtopo.partitioning import murmur2

_INTERVAL, _AT_ONCE = 0.1, 10_000
_NUMBER = Struct(">q").pack

Take = Callable[[Sequence[Any]], None]
Flush = Callable[[], None]

partition_of = cache(lambda key: murmur2(key) % PARTITIONS)


def mapping(produce: Any, output: str, least: float) -> tuple[Take, Flush]:
    def take(messages: Sequence[Any]) -> None:
        for message in messages:
            event = orjson.loads(message.value())
            if event["amount"] >= least:
                key = message.key()
                value = orjson.dumps(in_cents(event))
                produce(output, value, key, partition_of(key), None, None, message.timestamp()[1])

    return take, lambda: None


def counting(produce: Any, output: str, changelog: str) -> tuple[Take, Flush]:
    """Send each key's count once per commit. Values are decoded, as in the other programs."""
    counts: Counter[bytes] = Counter()
    times: dict[bytes, int] = {}

    def take(messages: Sequence[Any]) -> None:
        for message in messages:
            orjson.loads(message.value())
        keys = [message.key() for message in messages]
        counts.update(keys)
        times.update(zip(keys, [message.timestamp()[1] for message in messages], strict=True))

    def flush() -> None:
        for key, time_ms in times.items():
            value, partition = _NUMBER(counts[key]), partition_of(key)
            produce(output, value, key, partition, None, None, time_ms)
            produce(changelog, value, key, partition, None, None, time_ms)
        times.clear()

    return take, flush


def counting_each(produce: Any, output: str, changelog: str) -> tuple[Take, Flush]:
    counts: dict[bytes, int] = {}

    def take(messages: Sequence[Any]) -> None:
        for message in messages:
            orjson.loads(message.value())
            key, time_ms = message.key(), message.timestamp()[1]
            counts[key] = count = counts.get(key, 0) + 1
            value, partition = _NUMBER(count), partition_of(key)
            produce(output, value, key, partition, None, None, time_ms)
            produce(changelog, value, key, partition, None, None, time_ms)

    return take, lambda: None


def job(workload: str, produce: Any, output: str, changelog: str) -> tuple[Take, Flush]:
    match workload:
        case "map-filter":
            return mapping(produce, output, LEAST)
        case "latency":
            return mapping(produce, output, 0)
        case "keyed-count":
            return counting(produce, output, changelog)
        case _:
            return counting_each(produce, output, changelog)


class Client:
    """Poll, process and commit, every 100 ms or when there are no more records."""

    def __init__(self, brokers: str, group: str, source: str, *, exactly_once: bool) -> None:
        self._source, self._exactly_once = source, exactly_once
        reading: dict[str, Any] = {"bootstrap.servers": brokers, "group.id": group, "group.protocol": "consumer"}
        reading |= {"enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.queue.backoff.ms": 2}
        writing: dict[str, Any] = {"bootstrap.servers": brokers, "linger.ms": 5, "enable.idempotence": True}
        writing |= {"queue.buffering.max.messages": 10_000_000, "retry.backoff.ms": 5, "retry.backoff.max.ms": 20}
        self._consumer = Consumer(reading)
        self.producer = Producer(writing | ({"transactional.id": group} if exactly_once else {}))
        if exactly_once:
            self.producer.init_transactions()
        self._positions: dict[int, int] = {}

    def run(self, take: Take, flush: Flush, stopped: Sequence[int]) -> None:
        self._consumer.subscribe([self._source])
        committed_at = time.monotonic()
        while not stopped:
            messages = self._read()
            if messages:
                if self._exactly_once and not self._positions:
                    self.producer.begin_transaction()
                take(messages)
                self._positions |= {message.partition(): message.offset() + 1 for message in messages}
                self.producer.poll(0)
            if self._positions and (not messages or time.monotonic() - committed_at >= _INTERVAL):
                flush()
                self._commit()
                committed_at = time.monotonic()
        self._consumer.close()

    def _read(self) -> list[Any]:
        messages: list[Any] = self._consumer.consume(_AT_ONCE, 0)
        if messages or self._positions:
            return messages
        first = self._consumer.poll(0.1)
        return [] if first is None else [first]

    def _commit(self) -> None:
        places = [Place(self._source, partition, offset) for partition, offset in self._positions.items()]
        if self._exactly_once:
            self.producer.send_offsets_to_transaction(places, self._consumer.consumer_group_metadata())
            self.producer.commit_transaction()
        else:
            self.producer.flush()
            self._consumer.commit(offsets=places, asynchronous=False)
        self._positions = {}


def main(workload: str, brokers: str, group: str, source: str, output: str, guarantee: str) -> None:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    changelog = f"{group}-changelog"
    admin = AdminClient({"bootstrap.servers": brokers})
    admin.create_topics([NewTopic(changelog, PARTITIONS)])[changelog].result()
    client = Client(brokers, group, source, exactly_once=guarantee == "exactly-once")
    client.run(*job(workload, client.producer.produce, output, changelog), stopped)


if __name__ == "__main__":
    main(*sys.argv[1:])
