"""A running demo: a thread that feeds the application sample input, and a tally of its results."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from heapq import nlargest
from itertools import islice
from types import ModuleType
from typing import Any, NamedTuple

from streamtopo.demo import Demo
from streamtopo.errors import ConfigError
from streamtopo.logs import Log
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from streamtopo.serdes import Serde
from streamtopo.topology import Topology
from streamtopo.wall_clock import wall_clock

_FEED_INTERVAL = 0.05
"""Seconds between two batches of input."""
_RECENT_RECORDS = 20_000
"""Number of records of each partition, from before the demo, that the tally includes."""
_MAX_READ = 10_000


class Top(NamedTuple):
    title: str
    rows: list[tuple[Any, Any]]


class RunningDemo:
    """A context manager. If the feeding thread fails, `top` raises its error."""

    def __init__(self, demo: Demo, topology: Topology, log: Log) -> None:
        self._title = demo.title
        self._feeder = Feeder(demo, topology, log)
        self._tally = Tally(demo, topology, log)

    def top(self, count: int = 10) -> Top:
        if self._feeder.error is not None:
            raise self._feeder.error
        return Top(self._title, self._tally.largest(count))

    def __enter__(self) -> RunningDemo:
        self._feeder.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._feeder.stop()


def demo_of(module: ModuleType) -> Demo:
    demo = getattr(module, "demo", None)
    if not isinstance(demo, Demo):
        raise ConfigError(
            f'"{module.__name__}" has no demo; define one (demo = Demo(feed=…, shows="TOPIC"), from streamtopo.demo '
            "import Demo), or start without --demo"
        )
    return demo


class Feeder:
    def __init__(self, demo: Demo, topology: Topology, log: Log) -> None:
        self.error: Exception | None = None
        self._demo = demo
        self._log = log
        self._serdes = {
            topology.topic_of(name): (source.key, source.value) for source in topology.sources for name in source.topics
        }
        self._partitions = {name: topic.partitions for name, topic in log.topics().items()}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            records = iter(self._demo.feed())
            tick = 0
            while not self._stopped.wait(_FEED_INTERVAL if tick else 0):
                self._feed(list(islice(records, max(1, round(self._demo.rate * _FEED_INTERVAL)))), tick)
                tick += 1
        except Exception as error:
            self.error = error

    def _feed(self, records: list[tuple[str, Any, Any]], tick: int) -> None:
        """Append a batch of records. Those without a key go to one partition, another one for each batch."""
        columns: dict[TopicPartition, Columns] = {}
        now = wall_clock()
        for topic, key, value in records:
            key_bytes, value_bytes = self._encoded(topic, key, value)
            target = TopicPartition(topic, partition_of(key_bytes, self._partitions[topic], keyless=tick))
            keys, values, timestamps, _ = columns.setdefault(target, Columns([], [], [], None))
            keys.append(key_bytes)
            values.append(value_bytes)
            timestamps.append(now)
        for target, portion in columns.items():
            self._log.append(target, portion)

    def _encoded(self, topic: str, key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        if topic not in self._serdes:
            known = ", ".join(sorted(self._serdes))
            raise ConfigError(f'the demo feeds topic "{topic}", which the topology does not read; it reads {known}')
        key_serde, value_serde = self._serdes[topic]
        return key_serde.encode_column([key])[0], value_serde.encode_column([value])[0]


class Tally:
    """The number in the latest value of each key of a topic."""

    def __init__(self, demo: Demo, topology: Topology, log: Log) -> None:
        topic = demo.shows
        self._log = log
        self._of = demo.of
        self._key, self._value = _serdes_of(topic, topology)
        self._last: dict[Any, Any] = {}
        parts = [TopicPartition(topic, number) for number in range(log.topics()[topic].partitions)]
        self._positions = {part: max(log.start(part), log.end(part) - _RECENT_RECORDS) for part in parts}

    def largest(self, count: int) -> list[tuple[Any, Any]]:
        for part in self._positions:
            for key, value in self._new_records(part):
                if value is None:
                    self._last.pop(key, None)
                else:
                    self._last[key] = self._of(value)
        return nlargest(count, self._last.items(), key=lambda row: row[1])

    def _new_records(self, part: TopicPartition) -> Iterator[tuple[Any, Any]]:
        batch = self._log.read(part, self._positions[part], _MAX_READ)
        self._positions[part] = batch.next_offset
        keys, values = self._key.decode_column(batch.columns.keys), self._value.decode_column(batch.columns.values)
        return zip(keys, values, strict=True)


def _serdes_of(topic: str, topology: Topology) -> tuple[Serde, Serde]:
    for sink in topology.sinks:
        if sink.topic == topic:
            return sink.key, sink.value
    raise ConfigError(f'the demo shows topic "{topic}", which the topology does not write; name the topic of a sink')
