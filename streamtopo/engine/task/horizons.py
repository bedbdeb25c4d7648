"""How far the clocks of each node of a task may go: as far as all tasks that write the topics above it have got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamtopo.engine.program.shape import sources_above
from streamtopo.engine.task.ahead import ClockLimit
from streamtopo.engine.task.origins import AllRead, Origins
from streamtopo.topology.clocks import Bound, OperatorClock
from streamtopo.topology.nodes import Node, ProcessorNode, Subtopology
from streamtopo.topology.operator import Timing
from streamtopo.windows import FOREVER


class Horizons:
    """Nodes below the same sources have the same bound. Others must not wait for each other.

    In a join by foreign key, the answers wait for the other table's tasks, and those wait for the subscriptions, which
    come from the same tasks as the answers go to, but from other nodes.
    """

    def __init__(self, subtopology: Subtopology, ahead: ClockLimit) -> None:
        self.ahead = ahead
        """How far records may be ahead of the wall clock."""
        self.sources: list[tuple[str, Origins]] = []
        """For each input that several tasks write: its source, and what is known of them."""
        self.whole = Bound()
        """For the task, and for the stores of processors: all its sources."""
        self.above: Mapping[str, frozenset[str]] = sources_above(subtopology.nodes)
        self.retimed = _retimed(subtopology.nodes)
        """The nodes whose rows may be older than others before them although all records are in order."""
        sources = frozenset(source.name for source in subtopology.sources)
        self._bounds: dict[frozenset[str], Bound] = {sources: self.whole}
        self.held_since: int | None = None
        """By the wall clock, since when there have been rows past the stream time, and it has not moved."""
        self._held_at = -1

    def of(self, node: str) -> Bound:
        return self._bounds.setdefault(self.above[node], Bound(self.whole.time))

    def hear(self, now: int, patience: int, all_read: AllRead) -> bool:
        """Whether a horizon moves: by what origins announced, or because some have been silent for so long."""
        for _, origins in self.sources:
            origins.age(now, patience, all_read)
        return any(bound.horizon != self._lowest(sources) for sources, bound in self._bounds.items())

    def follow(self) -> None:
        """Move the bounds to what is known of the origins: usually forward, but back after a rollback."""
        for sources, bound in self._bounds.items():
            bound.horizon = self._lowest(sources)

    def note(self, stream_time: OperatorClock, now: int) -> None:
        """Remember since when stream time is held back."""
        if stream_time.seen <= stream_time.time:
            self.held_since = None
        elif self.held_since is None or self._held_at != stream_time.time:
            self.held_since, self._held_at = now, stream_time.time

    @property
    def slowest(self) -> Origins:
        """Of the sources that several tasks write, the one whose tasks hold stream time back."""
        return min([origins for _, origins in self.sources], key=lambda origins: origins.known.horizon)

    def limit(self, time: int) -> None:
        """Clocks ignore rows with a later time than this."""
        for bound in self._bounds.values():
            bound.time = time

    def _lowest(self, sources: frozenset[str]) -> int:
        return min([origins.known.horizon for source, origins in self.sources if source in sources], default=FOREVER)


def written(sink: str) -> str:
    """The name of the register with the latest time of a row that a sink has written."""
    return f"{sink}/written"


def _retimed(nodes: Iterable[Node]) -> frozenset[str]:
    """Those below an operator that holds rows back, or changes their times."""
    found: set[str] = set()
    for node in nodes:
        changes = isinstance(node, ProcessorNode) and node.operator.timing is Timing.CHANGED
        if changes or not found.isdisjoint(node.parents):
            found.add(node.name)
    return frozenset(found)
