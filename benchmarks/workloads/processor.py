"""How fast is a user's processor, called record by record, with a store?"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from benchmarks.bare.loop import Output, Send, run_bare
from benchmarks.bare.numbers import NUMBER, numbers_of
from benchmarks.data import create, events, fill, repeating_users
from benchmarks.engine import processing
from benchmarks.places import Place
from benchmarks.results import every_record
from benchmarks.workload import Workload
from streamtopo import Processor, ProcessorContext, Record, StreamsBuilder, Topology, key_value_store
from streamtopo.logs import Log
from streamtopo.records import Batch, TopicPartition


class Spending(Processor):
    """Forward what each user has spent so far, in cents."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.totals = context.get_state_store("totals")

    def process(self, record: Record) -> None:
        total = (self.totals.get(record.key) or 0) + round(record.value["amount"] * 100)
        self.totals.put(record.key, total)
        self.context.forward(record.with_value(total))


def topology() -> Topology:
    builder = StreamsBuilder("processor")
    store = key_value_store("totals", key=str, value=int)
    builder.stream("events", key=str, value=dict).process(Spending, stores=[store], value=int).to("spent")
    return builder.build()


class BareSpending:
    def __init__(self, place: Place) -> None:
        self._parts = numbers_of(place, "events", "totals", timed=False)
        self._output = Output(place.log, "spent")

    def take(self, batch: Batch, send: Send) -> None:
        part = self._parts[batch.source.partition]
        keys: list[bytes] = batch.columns.keys  # type: ignore[assignment]
        times = batch.columns.timestamps
        part.load(keys)
        totals, new = part.values, []
        for key, event in zip(keys, map(orjson.loads, batch.columns.values), strict=True):  # type: ignore[arg-type]
            totals[key] = total = totals[key] + round(event["amount"] * 100)
            new.append(total)
        part.times.update(zip(keys, times, strict=True))
        part.changed.update(keys)
        self._output.send(send, keys, list(map(NUMBER.pack, new)), times)

    def flush(self, send: Send) -> None:
        for part in self._parts:
            part.log(send, *part.flush())

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        for part in self._parts:
            part.write(ends)


def prepare(log: Log, records: int) -> None:
    create(log, "events", "spent")
    fill(log, "events", events(repeating_users(records)))


def bare(place: Place) -> None:
    run_bare(place.log, ["events"], BareSpending(place))


workload = Workload(
    "processor",
    "How fast is a user's processor that gets, puts and forwards record by record?",
    300_000,
    prepare,
    processing(topology),
    bare,
    every_record("spent"),
)
