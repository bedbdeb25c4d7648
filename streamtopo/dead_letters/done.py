"""What was replayed or purged: remembered in a topic next to that of the letters, as ranges of offsets.

The topic has one partition. Each of its records is JSON: the id of the letters' topic (one that is deleted and created
again gets another id), a partition of it, "replayed" or "purged", and ranges of offsets, both ends included. Records of
replays are written in the same transaction as the replayed records.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from streamtopo.logs import Log, Topic
from streamtopo.records import Columns, TopicPartition
from streamtopo.wall_clock import wall_clock

Action = Literal["replayed", "purged"]
Range = tuple[int, int]
"""The first and the last offset."""
_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1"}
_RANGES = 10_000
"""In one record: brokers refuse records of more than a megabyte."""
_PAGE = 1_000
_PAUSE = 0.05


class Offsets:
    """A set of offsets."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        ordered = sorted(ranges)
        self._firsts = [first for first, _ in ordered]
        self._lasts: list[int] = []
        """At each place, the last offset of all ranges up to it: ranges of letters replayed again may overlap."""
        for _, last in ordered:
            self._lasts.append(max(last, self._lasts[-1]) if self._lasts else last)

    def __contains__(self, offset: int) -> bool:
        place = bisect_right(self._firsts, offset)
        return place > 0 and self._lasts[place - 1] >= offset

    def others(self, offsets: Sequence[int], rows: Sequence[int]) -> Sequence[int]:
        """Those rows whose offsets are not in the set."""
        if not self._firsts or not rows or self._lasts[-1] < offsets[0] or self._firsts[0] > offsets[-1]:
            return rows
        return [row for row in rows if offsets[row] not in self]


class Done(NamedTuple):
    """By partition."""

    replayed: defaultdict[int, Offsets]
    purged: defaultdict[int, Offsets]


def done_topic(topic: Topic) -> str:
    return f"{topic.name}.done"


def done_partition(log: Log, topic: Topic) -> TopicPartition:
    """Where to write what was done; the topic is created if it does not exist."""
    name = done_topic(topic)
    if name not in log.topics():
        log.create(Topic(name, 1, _CONFIG))
    return TopicPartition(name, 0)


def done_records(topic: Topic, partition: int, action: Action, ranges: Sequence[Range]) -> Columns:
    about = {"topic_id": topic.id, "partition": partition, "action": action}
    parts = [ranges[start : start + _RANGES] for start in range(0, len(ranges), _RANGES)]
    values: list[bytes | None] = [json.dumps(about | {"offsets": part}).encode() for part in parts]
    return Columns([None] * len(values), values, [wall_clock()] * len(values))


def read_done(log: Log, topic: Topic, *, settled: bool = False) -> Done:
    """`settled` waits until open transactions have ended, such as that of a replay that was killed."""
    ranges: dict[str, defaultdict[int, list[Range]]] = {"replayed": defaultdict(list), "purged": defaultdict(list)}
    if done_topic(topic) in log.topics():
        for value in _values(log, TopicPartition(done_topic(topic), 0), settled):
            record = json.loads(value)
            if record["topic_id"] == topic.id:
                ranges[record["action"]][record["partition"]] += map(tuple, record["offsets"])
    sets = [{one: Offsets(them) for one, them in by_partition.items()} for by_partition in ranges.values()]
    return Done(*(defaultdict(Offsets, by_partition) for by_partition in sets))


def _values(log: Log, source: TopicPartition, settled: bool) -> Iterator[bytes]:
    position, end = log.start(source), log.end(source)
    while position < end:
        batch = log.read(source, position, _PAGE)
        yield from filter(None, batch.columns.values)
        if batch.next_offset == position:
            if not settled:
                return
            time.sleep(_PAUSE)
        position = batch.next_offset


def ranges_of(offsets: Iterable[int]) -> list[Range]:
    """
    >>> ranges_of([3, 4, 5, 9])
    [(3, 5), (9, 9)]
    """
    ranges: list[Range] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1] = (ranges[-1][0], offset)
        else:
            ranges.append((offset, offset))
    return ranges
