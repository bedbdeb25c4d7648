"""Finds letters in their topic, batch by batch; only what the question needs is decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from streamtopo.dead_letters.causes import Cause
from streamtopo.dead_letters.done import Done
from streamtopo.dead_letters.letters import Letter, letter_of
from streamtopo.dead_letters.selection import Place, Selection
from streamtopo.logs import LazyBatch, Log, Topic
from streamtopo.processors import Record
from streamtopo.records import TopicPartition


class Found(NamedTuple):
    """What is asked for in one batch."""

    partition: int
    batch: LazyBatch
    rows: Sequence[int]
    causes: list[Cause]
    """Of all rows of the batch."""

    def letters(self) -> Iterator[tuple[int, Letter]]:
        """Each letter with its offset."""
        if self.rows:
            keys, values, timestamps, headers = self.batch.columns()
            for row in self.rows:
                record = Record(keys[row], values[row], timestamps[row], headers[row] if headers else ())
                yield self.batch.offsets[row], letter_of(record)


def find(log: Log, topic: Topic, selection: Selection, done: Done, *, again: bool = False) -> Iterator[Found]:
    """Search each batch of the topic, up to its present end.

    Letters that were purged are never found, and those that were replayed only if `again`.
    """
    partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    extents = [selection.extent(log, partition) for partition in partitions]  # before a replay writes anything
    for number, (partition, extent) in enumerate(zip(partitions, extents, strict=True)):
        for batch in log.scan(partition, *extent):
            rows, causes = selection.chosen(batch)
            rows = done.purged[number].others(batch.offsets, rows)
            rows = rows if again else done.replayed[number].others(batch.offsets, rows)
            yield Found(number, batch, rows, causes)


class PlacedLetter(NamedTuple):
    place: Place
    letter: Letter
    replayed: bool


def find_one(log: Log, topic: Topic, place: Place, done: Done) -> PlacedLetter | None:
    """The last one, if the record at this place in a source failed several times."""
    last = None
    for found in find(log, topic, Selection(place=place), done, again=True):
        for offset, letter in found.letters():
            last = PlacedLetter(Place(found.partition, offset), letter, offset in done.replayed[found.partition])
    return last
