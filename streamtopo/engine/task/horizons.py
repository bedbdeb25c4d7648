"""How far the clocks of each node of a task go: as far as all tasks that write the topics above it have got."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import NamedTuple

from streamtopo.engine.program.shape import heard, sources_above
from streamtopo.engine.task.ahead import ClockLimit
from streamtopo.engine.task.options import TaskId
from streamtopo.engine.task.origins import Unread, WaitedFor
from streamtopo.engine.task.progress import Place
from streamtopo.records import TopicPartition
from streamtopo.stores import Kind
from streamtopo.topology.clocks import Bound, OperatorClock, Register
from streamtopo.topology.nodes import Node, ProcessorNode, Subtopology
from streamtopo.topology.operator import StillOpen, Timing
from streamtopo.windows import FOREVER

WrittenUntil = Callable[[Sequence[TaskId], TopicPartition, float], int | None]
"""The end of a partition after each of these tasks had nothing to read, at some moment since a time; or None."""


_MOST_REMEMBERED = 1000
"""An even number. Times are remembered until they count. While a task with unread records is waited for, which may
take days, more and more of those in between are left out; the last one stays."""


class Read(NamedTuple):
    """One of the partitions that the task reads."""

    partition: TopicPartition
    place: Place


class Age(NamedTuple):
    """For which times origins that have caught up are not waited for."""

    time: int = -1
    """Up to this one: it was seen long ago."""
    passed_over: bool = False
    """For all."""
    all_read: int = -1
    """Up to this time, the same is true of the partitions that the task itself reads and nobody announces."""


Ages = tuple[Age, ...]
"""Those of all horizons of a task."""


class TimeHorizon:
    """That of nodes below the same sources. The bound stays where it is until `follow`."""

    def __init__(
        self, bound: Bound, inputs: list[Read], patience: int, to_come: Callable[[], int] = lambda: FOREVER
    ) -> None:
        """`to_come`: operators above will forward no rows that are older than this."""
        self.bound = bound
        self._inputs = inputs
        self._patience = patience
        """For how many milliseconds origins that have caught up are waited for; with 0, only while they have unread
        records, so that a Driver gives the results of one record at a time."""
        self._to_come = to_come
        self._history: deque[tuple[float, int]] = deque()
        """When later times were seen in the rows, by the steady clock, and these times; both ascend."""
        self._latest = -1
        """The last of them."""
        self._look_since: float | None = None
        """When the origins were last passed, as long as it is not known whether the task itself has read all."""
        self.found = self._age = Age()
        """What is found of the silent origins counts from the next `follow` on."""
        self._committed = (bound.horizon, bound.lead, self._age)

    @property
    def moves(self) -> bool:
        return (self._time(self.found), self._lead(self.found)) != (self.bound.horizon, self.bound.lead)

    def follow(self, age: Age) -> None:
        self._age = age
        self.bound.horizon, self.bound.lead = self._time(age), self._lead(age)

    def commit(self) -> None:
        self._committed = self.bound.horizon, self.bound.lead, self._age

    def rollback(self) -> None:
        self.bound.horizon, self.bound.lead, self._age = self._committed

    def _time(self, age: Age) -> int:
        """By what is known now."""
        known = [one.place.origins.known for one in self._inputs if one.place.origins is not None]
        behind = min([one.behind for one in known], default=FOREVER)
        if not known or age.passed_over:
            return behind
        return min(behind, max(age.time, min([one.lowest for one in known])))

    def _lead(self, age: Age) -> int:
        """How far all have got, the tasks before and the task itself, whether they have written rows for it or not."""
        known = [one.place.origins.known for one in self._inputs if one.place.origins is not None]
        if not known or any(one.lenient for one in known):
            return -1
        read = min([one.place.time for one in self._inputs if one.place.origins is None], default=FOREVER)
        return min(self._time(age), self._newest, max(read, age.all_read), self._to_come())

    @property
    def _newest(self) -> int:
        """The latest time of which the task knows."""
        heard = [one.place.origins.known.latest for one in self._inputs if one.place.origins is not None]
        return max([*heard, *[one.place.time for one in self._inputs]], default=-1)

    def waited_for(self, unread: Unread) -> WaitedFor | None:
        """The origin that holds the bound where it is."""
        horizon = self._time(self._age)
        origins = [one.place.origins for one in self._inputs if one.place.origins is not None]
        behind = [one for one in origins if one.known.behind <= horizon]
        slowest = min(behind or origins, key=lambda one: one.known.lowest, default=None)
        return None if slowest is None else slowest.waited_for(horizon, unread)

    def age(self, now: float, written_until: WrittenUntil) -> None:
        """Origins that have caught up, and have nothing to read, are not waited for any longer.

        No time past that of an origin that has not caught up is found. When it announces that it has, the mark may have
        been written before its newest records came: so these are looked for then.
        """
        if all(one.place.origins is None for one in self._inputs):
            return
        if not self._patience:
            passed_over = all(self._all_read(i, FOREVER, now, written_until) for i in self._inputs)
            self.found = Age(passed_over=passed_over, all_read=self._read_until(FOREVER, now, written_until))
            return
        latest = self._newest
        if latest > self._latest:
            self._latest = latest
            self._history.append((now, latest))
            if len(self._history) > _MOST_REMEMBERED:
                self._history = deque([one for place, one in enumerate(self._history) if place % 2 == 0])
        self._pass_silent(now, written_until)
        if self._look_since is not None:
            time = self._read_until(self.found.time, self._look_since, written_until)
            self.found = self.found._replace(all_read=max(time, self.found.all_read))
            self._look_since = None if time == self.found.time else self._look_since

    def _pass_silent(self, now: float, written_until: WrittenUntil) -> None:
        while self._history and self._history[0][0] <= now - self._patience:
            since, seen = self._history[0]
            time = min(seen, self._time(Age(passed_over=True)))
            if time > self.found.time:
                if not all(self._all_read(one, time, since + self._patience, written_until) for one in self._inputs):
                    return
                self.found = self.found._replace(time=time)
                self._look_since = since + self._patience
            if time < seen:
                return
            self._history.popleft()

    def _all_read(self, one: Read, time: int, since: float, written_until: WrittenUntil) -> bool:
        """Whether the silent origins of an input had nothing to read, and all that they wrote has been processed."""
        origins = one.place.origins
        silent = origins.silent(time) if origins is not None else []
        if not silent:
            return True
        end = written_until(silent, one.partition, since)
        return end is not None and end <= one.place.offset

    def _read_until(self, time: int, since: float, written_until: WrittenUntil) -> int:
        """This time, if the task had processed all that is behind it in the partitions that nobody announces; or -1."""
        behind = [one for one in self._inputs if one.place.origins is None and one.place.time < time]
        ends = [(one, written_until([], one.partition, since)) for one in behind]
        return time if all(end is not None and end <= one.place.offset for one, end in ends) else -1


class Below(NamedTuple):
    """What decides how far clocks go: nodes with the same have the same horizon."""

    sources: frozenset[str]
    retimed: frozenset[StillOpen | None] = frozenset()
    """The operators whose rows arrive later than the records that they were made from."""


class Horizons:
    """Nodes below the same sources have the same horizon. Others must not wait for each other.

    In a join by foreign key, the answers wait for the other table's tasks, and those wait for the subscriptions, which
    come from the same tasks as the answers go to, but from other nodes.
    """

    def __init__(
        self, subtopology: Subtopology, ahead: ClockLimit, patience: int, register: Callable[[str], Register]
    ) -> None:
        self.ahead = ahead
        """How far records may be ahead of the wall clock."""
        self.whole = Bound()
        """For the task, and for the stores of processors: all its sources."""
        self.waits = False
        """Whether there are origins at all."""
        self.alone = True
        """Whether no task shares the work with this one, or with those before it: then time only follows rows, as in
        Kafka Streams."""
        self.above: Mapping[str, frozenset[str]] = sources_above(subtopology.nodes)
        self.retimed = _retimed(subtopology.nodes)
        """The nodes whose rows may be older than others before them although all records are in order, and what is
        known of the rows that the operators above will still forward."""
        self._register = register
        self._patience = patience
        self._inputs: dict[str, list[Read]] = {source.name: [] for source in subtopology.sources}
        self._all = Below(frozenset(self._inputs))
        self._below = {node.name: self._what_is_above(node, subtopology) for node in subtopology.nodes}
        self._horizons: dict[Below, TimeHorizon] = {}
        self.left_behind = False
        """Whether clocks have not followed the bounds: at the last commit, their task had only heard of them."""
        self.held_since: float | None = None
        """By the steady clock, since when there have been rows past the stream time, and it has not moved."""
        self._held_at = -1
        self._held_back: int | None = None
        """The bound of the task, while all are held."""
        self._add(self._all, self.whole)

    def read(self, source: str, partition: TopicPartition, place: Place) -> None:
        """The task reads this partition. Before any node is opened."""
        self._inputs[source].append(Read(partition, place))
        self.waits = self.waits or place.origins is not None
        self._add(self._all, self.whole)

    def of(self, node: str) -> Bound:
        below = self._below[node]
        if below not in self._horizons:
            self._add(below, Bound(self.whole.time))
        return self._horizons[below].bound

    def to_come(self, retimed: Iterable[StillOpen | None]) -> int:
        """No row that these will forward is older than this; -1 if nothing is known of one of them."""
        times = [-1 if one is None else self._register(one.register).value - one.length + 1 for one in retimed]
        return min(times, default=FOREVER)

    def hear(self, now: float, written_until: WrittenUntil) -> bool:
        """Whether a horizon moves: by what origins announced, or because some have been silent for so long."""
        for horizon in self._horizons.values():
            horizon.age(now, written_until)
        return self.pending

    @property
    def pending(self) -> bool:
        """Whether a horizon is to move, or clocks have still to follow: rows may come of it."""
        return self.left_behind or any(horizon.moves for horizon in self._horizons.values())

    @property
    def found(self) -> Ages:
        """What is found of the origins that have been silent."""
        return tuple(horizon.found for horizon in self._horizons.values())

    def follow(self, ages: Ages) -> None:
        """Move the bounds to what is known of the origins, and was found then of those that have been silent."""
        self.left_behind = False
        for horizon, age in zip(self._horizons.values(), ages, strict=True):
            horizon.follow(age)

    def commit(self) -> None:
        for horizon in self._horizons.values():
            horizon.commit()

    def rollback(self) -> None:
        for horizon in self._horizons.values():
            horizon.rollback()

    @contextmanager
    def held(self) -> Iterator[None]:
        """In this block all clocks stay where they are."""
        before = [(one.bound, one.bound.horizon, one.bound.lead) for one in self._horizons.values()]
        self._held_back = self.whole.horizon
        for bound, _, _ in before:
            bound.horizon = bound.lead = -1
        try:
            yield
        finally:
            self._held_back = None
            for bound, horizon, lead in before:
                bound.horizon, bound.lead = horizon, lead

    @property
    def of_records(self) -> int:
        """How far records move the time that processors see. It is not held."""
        return self.whole.horizon if self._held_back is None else self._held_back

    def note(self, stream_time: OperatorClock, now: float) -> None:
        """Remember since when stream time is held back."""
        if stream_time.seen <= stream_time.time:
            self.held_since = None
        elif self.held_since is None or self._held_at != stream_time.time:
            self.held_since, self._held_at = now, stream_time.time

    def waited_for(self, unread: Unread) -> WaitedFor | None:
        """The origin that holds stream time back."""
        return self._horizons[self._all].waited_for(unread)

    def limit(self, time: int) -> None:
        """Clocks ignore rows with a later time than this."""
        for horizon in self._horizons.values():
            horizon.bound.time = time

    def _add(self, below: Below, bound: Bound) -> None:
        inputs = list(chain.from_iterable(self._inputs[source] for source in sorted(below.sources)))
        to_come = partial(self.to_come, {None} if self.alone else below.retimed)
        self._horizons[below] = TimeHorizon(bound, inputs, self._patience, to_come)

    def _what_is_above(self, node: Node, subtopology: Subtopology) -> Below:
        """Rows with a history must stay as long as those that look for them may come, which read other sources, too."""
        sources = self.above[node.name]
        if isinstance(node, ProcessorNode) and _keeps_history(node, subtopology):
            sources = sources.union(*[self.above[one.name] for one in subtopology.nodes if node.name in heard(one)])
        retimed = [self.retimed[parent] for parent in node.parents if parent in self.retimed]
        return Below(sources, frozenset[StillOpen | None]().union(*retimed))


def _keeps_history(node: ProcessorNode, subtopology: Subtopology) -> bool:
    return any(spec.kind is Kind.VERSIONED for spec in subtopology.stores if spec.name in node.stores)


def written(sink: str) -> str:
    """The name of the register with the latest time of a row that a sink has written."""
    return f"{sink}/written"


def _retimed(nodes: Iterable[Node]) -> dict[str, frozenset[StillOpen | None]]:
    """Those below an operator that holds rows back, or changes their times: only the last one on each way counts."""
    found: dict[str, frozenset[StillOpen | None]] = {}
    for node in nodes:
        if isinstance(node, ProcessorNode) and node.operator.timing is Timing.CHANGED:
            found[node.name] = frozenset([node.operator.still_open])
        elif not found.keys().isdisjoint(node.parents):
            found[node.name] = frozenset[StillOpen | None]().union(*[found.get(one, {None}) for one in node.parents])
    return found
