"""Replays dead letters: writes their records again, each once."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from streamtopo.dead_letters.done import done_partition, done_records, done_topic, ranges_of, read_done
from streamtopo.dead_letters.finding import Found, find
from streamtopo.dead_letters.letters import Letter
from streamtopo.dead_letters.selection import Place, Selection
from streamtopo.errors import LogError
from streamtopo.logs import Log, Member, Outcome, Topic
from streamtopo.partitioning import partition_of
from streamtopo.processors import Record
from streamtopo.records import Columns, Position, TopicPartition

logger = logging.getLogger("streamtopo")

_PATIENCE = 60.0
"""Seconds after which every log has noticed that a replay was killed."""
_PAUSE = 0.1


class Replayed(NamedTuple):
    """How many letters went to which topic, and how many cannot be replayed, by the reason."""

    to: Counter[str]
    refused: Counter[str]


Values = Mapping[Place, bytes | None]
"""Corrected values, by the places of the letters."""


class Targets:
    """Where the records of letters go: to their sources, or all of them to one topic.

    With `values`, only these letters are replayed, and with these values.
    """

    def __init__(self, log: Log, to: str | None = None, values: Values | None = None) -> None:
        self._topics = log.topics()
        self._to = to
        self._values = values

    def letters(self, found: Found) -> Iterator[tuple[int, Letter]]:
        """Each letter to replay, with its offset."""
        if self._values is None:
            yield from found.letters()
            return
        for offset, letter in found.letters():
            place = Place(found.partition, offset)
            if place in self._values:
                yield offset, letter._replace(record=letter.record._replace(value=self._values[place]))

    def refusal(self, letter: Letter) -> str | None:
        """Why the letter cannot be replayed."""
        if letter.call is not None:
            return "it is about a call, not a record"
        if letter.cut is not None:
            return "the record was cut"
        if self._to is None and letter.source is None:
            return "the source is not known (give --to)"
        if (topic := self._topic(letter)) not in self._topics:
            return f'there is no topic "{topic}" (create it, or give --to)'
        return None

    def of(self, letter: Letter) -> TopicPartition:
        """The record's own partition if the topic has it, else that of its key."""
        topic = self._topic(letter)
        count = self._topics[topic].partitions
        own = letter.source.partition if letter.source else 0
        if letter.source and letter.source.topic == topic and own < count:
            return TopicPartition(topic, own)
        return TopicPartition(topic, partition_of(letter.record.key, count, own))

    def _topic(self, letter: Letter) -> str:
        return self._to or (letter.source.topic if letter.source else "")


class _Outgoing(NamedTuple):
    """What a batch of letters becomes."""

    offsets: list[int]
    records: Mapping[TopicPartition, list[Record]]
    refused: Counter[str]


def plan_replay(log: Log, topic: Topic, selection: Selection, targets: Targets, *, again: bool = False) -> Replayed:
    """What a replay would do now."""
    planned = Replayed(Counter(), Counter())
    for found in find(log, topic, selection, read_done(log, topic), again=again):
        _count(planned, _outgoing(found, targets))
    return planned


def replay(log: Log, topic: Topic, selection: Selection, targets: Targets, *, again: bool = False) -> Replayed:
    """Write the records of the letters again, and remember in the same transaction that they were replayed.

    If it is interrupted at any moment, it can be called again: it goes on, and writes no record twice.
    """
    replayed = Replayed(Counter(), Counter())
    remembered = done_partition(log, topic)
    with _alone(log, topic) as member:
        done = read_done(log, topic, settled=True)
        for found in find(log, topic, selection, done, again=again):
            outgoing = _outgoing(found, targets)
            if outgoing.offsets:
                for target, records in outgoing.records.items():
                    member.send(target, _columns(records))
                ranges = ranges_of(outgoing.offsets)
                member.send(remembered, done_records(topic, found.partition, "replayed", ranges))
                _commit(member, TopicPartition(topic.name, found.partition), found.batch.offsets[-1] + 1)
            member.poll(1, 0)  # reads nothing, but without polls a cluster takes the member for dead
            _count(replayed, outgoing)
    return replayed


def _outgoing(found: Found, targets: Targets) -> _Outgoing:
    outgoing = _Outgoing([], defaultdict(list), Counter())
    for offset, letter in targets.letters(found):
        if (refusal := targets.refusal(letter)) is not None:
            outgoing.refused[refusal] += 1
        else:
            outgoing.offsets.append(offset)
            outgoing.records[targets.of(letter)].append(letter.record)
    return outgoing


def _count(replayed: Replayed, outgoing: _Outgoing) -> None:
    replayed.refused.update(outgoing.refused)
    for target, records in outgoing.records.items():
        replayed.to[target.topic] += len(records)


def _columns(records: list[Record]) -> Columns:
    keys, values, timestamps, headers = map(list, zip(*records, strict=True))
    return Columns(keys, values, timestamps, headers if any(headers) else None)


@contextmanager
def _alone(log: Log, topic: Topic) -> Iterator[Member]:
    """Be the only process that replays letters of this topic: the only member of a group that reads it.

    The log refuses commits of a member that lost its partitions.
    """
    group, deadline = done_topic(topic), time.monotonic() + _PATIENCE
    if _has_members(log, group):
        logger.warning('waiting for another replay of "%s", which is running or was killed a moment ago', topic.name)
    while _has_members(log, group):
        _check_in_time(topic, deadline)
        time.sleep(_PAUSE)
    member = log.join(group, [(topic.name,)])
    try:
        while len(member.assignment()) < topic.partitions:
            _check_in_time(topic, deadline)
            member.poll(1, _PAUSE)
        yield member
    finally:
        member.leave()


def _has_members(log: Log, group: str) -> bool:
    """A cluster needs some time to notice that a member was killed."""
    state = log.group(group)
    return state is not None and bool(state.members)


def _check_in_time(topic: Topic, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise LogError(f'another replay of the dead letters in "{topic.name}" is running; wait until it has ended')


def _commit(member: Member, partition: TopicPartition, position: int) -> None:
    result = member.commit({partition: Position(position)})
    if result.outcome is Outcome.DONE:
        return
    if result.outcome is Outcome.UNKNOWN:
        member.settle()
    else:
        member.abort()
    raise LogError(
        f"dead letters of {partition} were not replayed: {result.reason}; run the same command again: it "
        "continues with the remaining letters"
    )
