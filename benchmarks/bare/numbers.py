"""A number per key of one partition, in a dict above a store with a changelog: the state of the bare counts."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping

from benchmarks.bare.loop import Send
from benchmarks.places import Place
from streamtopo.logs import Log, Topic
from streamtopo.records import Columns, TopicPartition

NUMBER = struct.Struct(">q")
_ROW = struct.Struct(">qq")


class Numbers:
    """`timed`: rows in the store have a timestamp, as in tables; plain key-value stores have none."""

    def __init__(self, place: Place, store: str, partition: int, *, timed: bool) -> None:
        self.values: Counter[bytes] = Counter()
        self.times: dict[bytes, int] = {}
        self.changed: set[bytes] = set()
        self._changelog = TopicPartition(changelog_of(store), partition)
        self._name = store
        self._prefix = store.encode() + b"\0"
        self._store = place.open_rows()
        self._timed = timed
        self._rows: dict[bytes, bytes] = {}

    def load(self, keys: Iterable[bytes]) -> None:
        """Load the numbers of these keys into the dict."""
        missing = list(set(keys).difference(self.values))
        prefix = self._prefix
        for key, row in zip(missing, self._store.get_many([prefix + key for key in missing]), strict=True):
            self.times[key] = -1
            self.values[key] = 0
            if row is not None and self._timed:
                self.times[key], self.values[key] = _ROW.unpack(row)
            elif row is not None:
                (self.values[key],) = NUMBER.unpack(row)

    def flush(self) -> tuple[list[bytes], list[bytes], list[int]]:
        """Return the changed keys, their numbers as bytes, and their times; keep the store's changes for `write`."""
        keys = list(self.changed)
        numbers = list(map(self.values.__getitem__, keys))
        times = list(map(self.times.__getitem__, keys))
        values = list(map(NUMBER.pack, numbers))
        rows = map(_ROW.pack, times, numbers) if self._timed else values
        self._rows = dict(zip(map(self._prefix.__add__, keys), rows, strict=True))
        self.changed = set()
        return keys, values, times

    def log(self, send: Send, keys: list[bytes], values: list[bytes], times: list[int]) -> None:
        if keys:
            send(self._changelog, Columns(keys, values, times))  # type: ignore[arg-type]

    def write(self, ends: Mapping[TopicPartition, int]) -> None:
        if self._rows:
            self._store.write(self._rows, {self._name: ends[self._changelog]})
            self._rows = {}


def changelog_of(store: str) -> str:
    return f"bare-{store}-changelog"


def numbers_of(place: Place, topic: str, store: str, *, timed: bool = True) -> list[Numbers]:
    """Return one for each partition of the topic, and create their changelog topic."""
    log: Log = place.log
    count = log.topics()[topic].partitions
    log.create(Topic(changelog_of(store), count, {"cleanup.policy": "compact"}))
    return [Numbers(place, store, partition, timed=timed) for partition in range(count)]
