"""Another version of an application on a cluster: what no longer fits is deleted and starts empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamtopo import StreamsBuilder, Topology, Worker
from streamtopo.errors import FingerprintError
from streamtopo.logs import Topic
from streamtopo.logs.kafka import KafkaLog
from streamtopo.records import Columns, TopicPartition
from tests.kafka.brokers import emptied
from tests.logs.child import until

pytestmark = pytest.mark.kafka
OUT = TopicPartition("out", 0)


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    log = emptied(kafka)
    log.create(Topic("in", 1))
    log.create(Topic("out", 1))
    yield log
    log.close()


def summing(kind: type | None) -> Topology:
    """Counts, and, if a type is given, sums with values of that type after a repartition topic."""
    builder = StreamsBuilder("upgraded")
    numbers = builder.stream("in", key=str, value=str)
    numbers.group_by_key().count(name="count").to_stream().map_values(str, value=str).to("out")
    if kind is not None:
        values = numbers.map_values(kind, value=kind).group_by(lambda key, value: f"{key} sum", key=str, name="by")
        sums = values.reduce(lambda row, value: row + value, name="sum")
        sums.to_stream().map_values(str, value=str).to("out")
    return builder.build()


def test_changed_stores_start_empty_and_the_others_continue(log: KafkaLog, tmp_path: Path) -> None:
    def after(topology: Topology, *numbers: str, accept: bool = True) -> dict[str, str]:
        """Return the last outputs, after this many rows of each table were changed."""
        log.append(
            TopicPartition("in", 0), Columns([b"k"] * len(numbers), [n.encode() for n in numbers], [5] * len(numbers))
        )
        start, last = log.end(OUT), dict[str, str]()
        worker = Worker(topology, log, state_dir=str(tmp_path), accept_changes=accept)
        read = start

        def all_there() -> bool:
            nonlocal read
            worker.run_once(0.05)
            columns = log.read(OUT, read, 1000)
            read = columns.next_offset
            last.update(
                {
                    (key or b"").decode(): (value or b"").decode()
                    for key, value in zip(columns.columns.keys, columns.columns.values, strict=True)
                }
            )
            return len(last) == (2 if "sum" in topology.stores else 1) and worker.metrics().lag == 0

        until(all_there)
        worker.close()
        return last

    assert after(summing(int), *["1"] * 10) == {"k": "10", "k sum": "10"}
    with pytest.raises(
        FingerprintError, match="topic upgraded-by-repartition: key str, value int -> key str, value str"
    ):
        after(summing(str), accept=False)
    assert after(summing(str), "1") == {"k": "11", "k sum": "1"}
    assert after(summing(str), "1") == {"k": "12", "k sum": "11"}
    assert after(summing(None), "1") == {"k": "13"}
    assert sorted(log.topics()) == ["in", "out", "upgraded-count-changelog"]
    assert after(summing(str), "1", accept=False) == {"k": "14", "k sum": "1"}
