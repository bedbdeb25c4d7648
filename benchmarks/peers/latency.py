"""The time of records from a producer, through a contender, to a reader of committed records: 1,000 per second."""

from __future__ import annotations

import time
from collections.abc import Sequence

import orjson
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from benchmarks.data import PARTITIONS, START, Row
from benchmarks.experiment import percentile
from benchmarks.experiments.latency import RATE
from benchmarks.peers.workloads import Workload
from benchmarks.processes import BrokenRunError, processes
from streamtopo.partitioning import partition_of

_PATIENCE = 60.0


def delays(brokers: str, workload: Workload, rows: Sequence[Row], warm_up: int) -> dict[str, float]:
    """Return the delays of the rows after the warm-up; a record's time starts when it is due."""
    with processes(2) as pool:
        reading = pool.submit(read, brokers, workload.output, len(rows))
        producing = pool.submit(produce, brokers, workload.input, rows)
        began, arrived = producing.result(), reading.result()
    waits = [(at - began) / 1e6 - place * 1000 / RATE for place, at in arrived.items() if place >= warm_up]
    return {"p50 ms": percentile(waits, 50), "p99 ms": percentile(waits, 99)}


def produce(brokers: str, topic: str, rows: Sequence[Row]) -> int:
    """Produce each record at its time; return the first one's time."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0, "log_level": 2})
    producer.list_topics(topic)
    began, written = time.monotonic_ns(), 0
    while written < len(rows):
        due = min(len(rows), (time.monotonic_ns() - began) * RATE // 1_000_000_000 + 1)
        for key, value, _ in rows[written:due]:
            producer.produce(topic, value, key, partition_of(key, PARTITIONS, 0))
        producer.poll(0)
        written = due
        time.sleep(max(0.0, (began - time.monotonic_ns()) / 1e9 + written / RATE))
    producer.flush()
    return began


def read(brokers: str, topic: str, count: int) -> dict[int, int]:
    """Return when each produced record, by its number, arrived last."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "reading", "enable.auto.commit": False})
    consumer.assign([Place(topic, number, 0) for number in range(PARTITIONS)])
    arrived: dict[int, int] = {}
    heard = time.monotonic()
    while len(arrived) < count:
        messages = [first, *consumer.consume(1000, 0)] if (first := consumer.poll(1.0)) is not None else []
        now = time.monotonic_ns()
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _PATIENCE:
            raise BrokenRunError(f"{len(arrived)} of {count} records arrived, and none for {_PATIENCE:.0f} s")
        for message in messages:
            arrived[orjson.loads(message.value() or b"")["ts"] - START] = now
    consumer.close()
    return arrived
