"""What the log shows of a run in other processes: the members, their progress, their results."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing

from benchmarks.bare.loop import BATCH
from benchmarks.places import Place, Site
from benchmarks.results import Look, Results
from streamtopo.logs import Log
from streamtopo.logs.opening import open_log
from streamtopo.records import Batch, TopicPartition
from streamtopo.stores.backends.memory import MemoryStore


def opened(site: Site) -> closing[Log]:
    return closing(open_log(site.url))


def shares(log: Log, group: str) -> list[int]:
    """Return the number of partitions of each member."""
    state = log.groups().get(group)
    return sorted(len(owned) for owned in state.members.values()) if state else []


def arriving(url: str, topic: str, partitions: int) -> Generator[Batch]:
    """Yield what comes into the topic, from its start, as the only member of the group "reading"."""
    with closing(open_log(url)) as log:
        member = log.join("reading", [(topic,)])
        while len(member.assignment()) < partitions:
            member.poll(BATCH, 0.1)
        for partition in member.assignment():
            member.seek(partition, 0)
        while True:
            yield from member.poll(BATCH, 1.0)


def consumed(log: Log, groups: Iterable[str], topics: Iterable[str]) -> bool:
    """Return whether all records of these topics are processed and committed, by any of the groups."""
    known = log.topics()
    if any(topic not in known for topic in topics):
        return False
    parts = [TopicPartition(topic, number) for topic in topics for number in range(known[topic].partitions)]
    at_work = log.groups()
    done = {part: at.offset for group in groups if group in at_work for part, at in at_work[group].positions.items()}
    return all(done.get(part) == log.end(part) for part in parts)


def left(site: Site, look: Look) -> Results:
    with opened(site) as log:
        return look(Place(log, lambda name: MemoryStore()))
