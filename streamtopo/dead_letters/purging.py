"""Purges dead letters: deletes them from the log where it can, which is at the start of a partition."""

from __future__ import annotations

from typing import NamedTuple

from streamtopo.dead_letters.done import Range, done_partition, done_records, ranges_of, read_done
from streamtopo.dead_letters.finding import find
from streamtopo.dead_letters.selection import Selection
from streamtopo.logs import Log, Topic
from streamtopo.records import TopicPartition


class Purge(NamedTuple):
    """What to purge, by partition."""

    letters: int
    deleted: dict[int, int]
    """Everything before this offset is deleted from the log."""
    hidden: dict[int, list[Range]]
    """Letters between others that stay are remembered as purged: they do not appear any more."""


def plan_purge(log: Log, topic: Topic, selection: Selection) -> Purge:
    done = read_done(log, topic)
    letters = 0
    deleted: dict[int, int] = {}
    hidden: dict[int, list[int]] = {}
    partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    staying = {one.partition for one in partitions if selection.extent(log, one)[0] > log.start(one)}
    """The partitions with a letter that is not purged, or not searched, before those that are."""
    for found in find(log, topic, selection, done, again=True):
        letters += len(found.rows)
        offsets, number = found.batch.offsets, found.partition
        chosen = [offsets[row] for row in found.rows]
        if number not in staying:
            gone, purged = set(chosen), done.purged[number]
            first = next((offset for offset in offsets if offset not in gone and offset not in purged), None)
            if first is not None:
                staying.add(number)
            deleted[number] = offsets[-1] + 1 if first is None else first
        hidden.setdefault(number, []).extend(offset for offset in chosen if offset >= deleted.get(number, 0))
    return Purge(letters, deleted, {number: ranges_of(offsets) for number, offsets in hidden.items() if offsets})


def purge(log: Log, topic: Topic, plan: Purge) -> None:
    """If it is interrupted, some of the letters are purged, and the others are not."""
    if plan.hidden:
        remembered = done_partition(log, topic)
        for number, ranges in plan.hidden.items():
            log.append(remembered, done_records(topic, number, "purged", ranges))
    for number, offset in plan.deleted.items():
        partition = TopicPartition(topic.name, number)
        if offset > log.start(partition):
            log.delete_before(partition, offset)
