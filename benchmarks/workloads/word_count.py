"""How many words per second does word count process, through a repartition topic?"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, repeat

from apps.wordcount import topology
from benchmarks.bare.counting import Counting
from benchmarks.bare.loop import Output, Send, run_bare
from benchmarks.data import LINE, create, fill, lines
from benchmarks.engine import processing
from benchmarks.places import Place
from benchmarks.results import last_values
from benchmarks.workload import Workload
from streamtopo.logs import Log
from streamtopo.records import Batch, TopicPartition


class WordCount:
    def __init__(self, place: Place) -> None:
        self._words = Output(place.log, "words")
        self._counting = Counting(place, "words", "word-counts")

    def take(self, batch: Batch, send: Send) -> None:
        if batch.source.topic == "words":
            self._counting.count(batch)
        else:
            self._split(batch, send)

    def _split(self, batch: Batch, send: Send) -> None:
        split = [line.decode().lower().split() for line in batch.columns.values]  # type: ignore[union-attr]
        words = list(map(str.encode, chain.from_iterable(split)))
        times = list(chain.from_iterable(map(repeat, batch.columns.timestamps, map(len, split))))
        self._words.send(send, words, words, times)

    def flush(self, send: Send) -> None:
        self._counting.flush(send)

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        self._counting.committed(ends)


def prepare(log: Log, records: int) -> None:
    create(log, "sentences", "word-counts")
    fill(log, "sentences", lines(records))


def bare(place: Place) -> None:
    create(place.log, "words")
    run_bare(place.log, ["sentences", "words"], WordCount(place))


workload = Workload(
    "word-count",
    f"How many words per second does word count process: lines of {LINE} words, through a repartition topic?",
    100_000,
    prepare,
    processing(lambda: topology),
    bare,
    last_values("word-counts"),
    "words",
    LINE,
)
