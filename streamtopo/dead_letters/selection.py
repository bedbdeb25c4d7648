"""Which dead letters someone asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streamtopo.dead_letters.causes import Cause, causes_of
from streamtopo.dead_letters.letters import text_of
from streamtopo.logs import LazyBatch, Log
from streamtopo.records import TopicPartition


class Place(NamedTuple):
    """A letter's partition and offset; with a source, those of its record in that topic."""

    partition: int
    offset: int
    source: str | None = None

    def __str__(self) -> str:
        return f"{self.source}/{self.partition}/{self.offset}" if self.source else f"{self.partition}/{self.offset}"


class Selection(NamedTuple):
    """The letters that have all that is given."""

    node: str | None = None
    exception: str | None = None
    """The name of the class, with or without its module."""
    topic: str | None = None
    """The source."""
    keys: frozenset[bytes] = frozenset()
    """One of these keys; any if empty."""
    since: int | None = None
    until: int | None = None
    """Times of the records, in milliseconds: from `since` to before `until`."""
    place: Place | None = None

    def extent(self, log: Log, partition: TopicPartition) -> tuple[int, int]:
        """The offsets where the letters may be."""
        if self.place is None or self.place.source:
            return log.start(partition), log.end(partition)
        number, offset, _ = self.place
        if number != partition.partition:
            return 0, 0
        return max(log.start(partition), offset), min(log.end(partition), offset + 1)

    def chosen(self, batch: LazyBatch) -> tuple[Sequence[int], list[Cause]]:
        """The rows of the letters in the batch, and the causes of all its rows."""
        causes = causes_of(batch, placed=self._in_source)
        rows: Sequence[int] = range(len(causes))
        if self.node or self.exception or self.topic or self._in_source:
            wanted = {cause for cause in set(causes) if self._wants(cause)}
            rows = [row for row in rows if causes[row] in wanted]
        if self.keys and rows:
            keys = batch.keys()
            rows = [row for row in rows if keys[row] in self.keys]
        if (self.since is not None or self.until is not None) and rows:
            times = batch.timestamps()
            rows = [row for row in rows if self._in_time(times[row])]
        return rows, causes

    @property
    def _in_source(self) -> bool:
        return self.place is not None and self.place.source is not None

    def _wants(self, cause: Cause) -> bool:
        exception, node, topic = map(text_of, cause[:3])
        return (
            self.node in (None, node)
            and (self.exception is None or f".{exception}".endswith(f".{self.exception}"))
            and self.topic in (None, topic)
            and (not self._in_source or (*cause[3:], topic) == self.place)
        )

    def _in_time(self, time: int) -> bool:
        return (self.since is None or time >= self.since) and (self.until is None or time < self.until)
