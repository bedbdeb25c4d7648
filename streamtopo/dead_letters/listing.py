"""Counts dead letters by node and exception, and finds the newest ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from streamtopo.dead_letters.causes import Cause
from streamtopo.dead_letters.done import read_done
from streamtopo.dead_letters.finding import PlacedLetter, find, find_one
from streamtopo.dead_letters.letters import text_of
from streamtopo.dead_letters.selection import Place, Selection
from streamtopo.logs import Log, Topic


class Count(NamedTuple):
    letters: int
    node: str | None
    exception: str | None


class Listing(NamedTuple):
    letters: int
    replayed: int
    """How many of those that are asked for were replayed before; `letters` has them only if they were asked for too."""
    counts: list[Count]
    """The largest first."""
    newest: list[PlacedLetter]
    """By the time of the record, the newest first."""


def list_letters(log: Log, topic: Topic, selection: Selection, most: int, *, again: bool = False) -> Listing:
    """`most` is the number of newest letters; `again` includes those that were replayed."""
    done = read_done(log, topic)
    causes: Counter[Cause] = Counter()
    replayed = 0
    newest: list[tuple[int, int, int]] = []
    for found in find(log, topic, selection, done, again=True):
        offsets = found.batch.offsets
        waiting = done.replayed[found.partition].others(offsets, found.rows)
        replayed += len(found.rows) - len(waiting)
        rows = found.rows if again else waiting
        causes.update(found.causes if len(rows) == len(offsets) else [found.causes[row] for row in rows])
        if rows and most:
            times = found.batch.timestamps()
            newest += [(times[row], found.partition, offsets[row]) for row in _latest(times, rows, most)]
            newest = sorted(newest)[-most:]
    counts: Counter[tuple[bytes | None, bytes | None]] = Counter()
    for (exception, node, *_), number in causes.items():
        counts[node, exception] += number
    return Listing(
        causes.total(),
        replayed,
        [Count(number, text_of(node), text_of(exception)) for (node, exception), number in counts.most_common()],
        [one for place in reversed(newest) if (one := find_one(log, topic, Place(*place[1:]), done)) is not None],
    )


def _latest(times: list[int], rows: Sequence[int], most: int) -> Sequence[int]:
    """The rows with the latest times, of equal times perhaps more than are needed."""
    if len(rows) <= most:
        return rows
    bound = sorted([times[row] for row in rows])[-most]
    return [row for row in rows if times[row] >= bound]
