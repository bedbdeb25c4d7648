"""How fast are two processors that share a store, so that records go through both one by one?"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from benchmarks.bare.loop import Output, Send, run_bare
from benchmarks.bare.numbers import NUMBER, numbers_of
from benchmarks.engine import processing
from benchmarks.places import Place
from benchmarks.results import every_record
from benchmarks.workload import Workload
from benchmarks.workloads.processor import prepare
from streamtopo import Processor, ProcessorContext, Record, StreamsBuilder, Topology, key_value_store
from streamtopo.records import Batch, TopicPartition

LIMIT = 5_000_000


class Summing(Processor):
    """Add what each user spends, in cents, and forward the event."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.totals = context.get_state_store("totals")

    def process(self, record: Record) -> None:
        total = self.totals.get(record.key) or 0
        self.totals.put(record.key, total + round(record.value["amount"] * 100))
        self.context.forward(record)


class Watching(Processor):
    """Forward the total of a user above the limit."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.totals = context.get_state_store("totals")

    def process(self, record: Record) -> None:
        total = self.totals.get(record.key)
        if total > LIMIT:
            self.context.forward(record.with_value(total))


def topology() -> Topology:
    builder = StreamsBuilder("shared-store")
    store = builder.add_state_store(key_value_store("totals", key=str, value=int))
    stream = builder.stream("events", key=str, value=dict)
    stream.process(Summing, stores=[store]).process(Watching, stores=[store], value=int).to("spent")
    return builder.build()


class BareWatching:
    def __init__(self, place: Place) -> None:
        self._parts = numbers_of(place, "events", "totals", timed=False)
        self._output = Output(place.log, "spent")

    def take(self, batch: Batch, send: Send) -> None:
        part = self._parts[batch.source.partition]
        keys: list[bytes] = batch.columns.keys  # type: ignore[assignment]
        times = batch.columns.timestamps
        part.load(keys)
        totals, rows = part.values, []
        values = map(orjson.loads, batch.columns.values)  # type: ignore[arg-type]
        for key, event, time in zip(keys, values, times, strict=True):
            totals[key] = total = totals[key] + round(event["amount"] * 100)
            if total > LIMIT:
                rows.append((key, NUMBER.pack(total), time))
        part.times.update(zip(keys, times, strict=True))
        part.changed.update(keys)
        self._output.send(send, [key for key, _, _ in rows], [value for _, value, _ in rows], [at for _, _, at in rows])

    def flush(self, send: Send) -> None:
        for part in self._parts:
            part.log(send, *part.flush())

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        for part in self._parts:
            part.write(ends)


def bare(place: Place) -> None:
    run_bare(place.log, ["events"], BareWatching(place))


workload = Workload(
    "shared-store",
    "How fast are two user processors that share a store: each record through both, depth first?",
    200_000,
    prepare,
    processing(topology),
    bare,
    every_record("spent"),
)
