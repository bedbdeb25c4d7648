"""The order in which a worker takes its tasks: those that are behind come first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from itertools import groupby
from operator import attrgetter

from streamtopo.engine.task.task import Task


def in_order_of_time(tasks: Iterable[Task], origins: Collection[int]) -> Iterator[Task]:
    """Each task once; but if tasks of a subtopology write what others must put in order, those that are behind first.

    `origins` are such subtopologies. They get as many turns as they have tasks, each for the task that has rows and
    the lowest stream time then. So the tasks of one worker stay within a round of each other.
    """
    for number, group in groupby(sorted(tasks, key=attrgetter("id")), key=attrgetter("id.subtopology")):
        several = list(group)
        yield from _slowest_first(several) if number in origins and len(several) > 1 else several


def _slowest_first(tasks: list[Task]) -> Iterator[Task]:
    turns = [(_time(task), place, task) for place, task in enumerate(tasks)]
    heapify(turns)
    for _ in tasks:
        _, place, task = turns[0]
        yield task
        if task.has_rows:
            heapreplace(turns, (_time(task), place, task))
        else:
            heappop(turns)


def _time(task: Task) -> int:
    return task.progress.stream_time.seen
