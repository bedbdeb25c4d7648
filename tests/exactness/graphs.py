"""Random topologies of all operators: forks after flat maps, merges, shared stores, several sinks on one topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from streamtopo import KStream, KTable, Processor, ProcessorContext, Record, StreamsBuilder, Topology, key_value_store
from streamtopo.testing import DriverRecord
from tests.exactness.windows import cogrouped, grouped_again, held_back, windowed
from tests.in_place import added, fail_sometimes, weak

OUTPUTS = ("out-1", "out-2")
GROUPED = tuple(f"grouped-s{number}" for number in range(5))
"""Each is written by one separate task."""
FOREIGN = "foreign"
"""Written by a task that waits for answers from another one."""


class Tally(Processor):
    """Count per key in a store of its own, and forward before and after the put."""

    store = ""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.rows = context.get_state_store(self.store)

    def process(self, record: Record) -> None:
        seen = self.rows.get(record.key) or []
        seen.append(record.value[0])
        self.context.forward(record.with_value(["before", *seen]))
        self.rows.put(record.key, seen)
        fail_sometimes(f"tally {seen}")
        seen.append("changed after the put")
        self.context.forward(record.with_value(["after", *(self.rows.get(record.key) or [])]))


class Watch(Processor):
    """Read a store that others write, and forward what it saw and where the record came from."""

    store = ""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.rows = context.get_state_store(self.store)
        context.schedule(50, "stream_time", self.tick)

    def process(self, record: Record) -> None:
        found = self.rows.get(record.key)
        metadata = self.context.record_metadata()
        where = [*metadata] if metadata is not None else []
        self.context.forward(record.with_value([record.value, found, where, self.context.current_stream_time_ms()]))

    def tick(self, time: int) -> None:
        self.context.forward(Record("tick", [time, len(list(self.rows.all()))], time))


def supplier(kind: type[Any], store: str) -> Callable[[], Processor]:
    return type(kind.__name__, (kind,), {"store": store})


def mark(text: str) -> Callable[[Any], Any]:
    """Change the value in place: anyone who shares it would see the mark."""
    return lambda value: value.append(text) or value


def aggregated(stream: KStream, draw: Callable[[Any], Any], name: str) -> KStream:
    grouped = stream.group_by_key()
    match draw(st.sampled_from(["count", "reduce", "aggregate"])):
        case "count":
            return grouped.count(name=name).to_stream().map_values(lambda total: [total], value=list)
        case "reduce":
            return grouped.reduce(lambda row, value: row.extend(value[:1]) or row, name=name).to_stream()
        case _:
            return grouped.aggregate(lambda: [], lambda _, value, row: added(row, [value[0]]), name=name).to_stream()


def step(stream: KStream, streams: list[KStream], draw: Callable[[Any], Any], name: str) -> list[KStream]:
    match draw(st.sampled_from(STEPS)):
        case "map":
            return [stream.map_values(mark(name))]
        case "flat":
            return [stream.flat_map_values(lambda value: [[*value, name, "a"], [*value, name, "b"]])]
        case "filter":
            return [stream.filter(lambda _, value: len(str(value)) % 3 != 0)]
        case "merge":
            return [stream.merge(draw(st.sampled_from(streams)))]
        case "split":
            return list(stream.split([lambda key, _: key < "c"], default=True).values())
        case "aggregate":
            return [aggregated(stream, draw, name)]
        case "tally":
            store = key_value_store(name, key=str, value=list)
            return [stream.process_values(supplier(Tally, name), stores=[store])]
        case "share":
            store = key_value_store(name, key=str, value=list)
            first = stream.process_values(supplier(Tally, name), stores=[store])
            other = draw(st.sampled_from([*streams, first]))
            return [first, watched(other, name)]
        case "table":
            table = stream.to_table(store=name)
            other = draw(st.sampled_from([stream, *streams]))
            return [table.to_stream(), watched(other, name)]
        case "table join":
            other = draw(st.sampled_from([stream, *streams]))
            return tables_joined(
                stream.to_table(), other.to_table(store=draw(st.sampled_from([name, None]))), draw, name
            )
        case "window":
            return [windowed(stream, draw, name)]
        case "cogroup":
            return [cogrouped(stream, draw(st.sampled_from([stream, *streams])), draw, name)]
        case "hold back":
            return [held_back(stream, draw, name)]
        case str(join) if join.startswith("join"):
            return joined(join, stream, streams, draw, name)
        case _:
            stream.select_key(lambda key, value: f"{key}{len(value) % 2}", key=str).to(OUTPUTS[len(name) % 2])
            return [stream]


def joined(join: str, stream: KStream, streams: list[KStream], draw: Callable[[Any], Any], name: str) -> list[KStream]:
    match join:
        case "join":
            table = stream.to_table(store=draw(st.sampled_from([name, None])))
            other = draw(st.sampled_from([table.to_stream(), stream, *streams]))
            return [table.to_stream(), other.left_join(table, pair)]
        case "join aggregate":
            table = stream.group_by_key().aggregate(lambda: [], lambda _, value, row: added(row, [value[0]]), name=name)
            other = draw(st.sampled_from([table.to_stream(), stream, *streams]))
            return [table.to_stream(), other.join(table, pair)]
        case "join versions":
            table = stream.to_table(versioned=draw(st.sampled_from([0, 30, 100])))
            other = draw(st.sampled_from([table.to_stream(), stream, *streams]))
            grace = draw(st.sampled_from([{}, {"grace": 0}]))
            return [table.to_stream(), other.left_join(table, pair, **grace)]
        case "join late":
            table = stream.to_table(versioned=100)
            other = draw(st.sampled_from([stream, *streams]))
            return [table.to_stream(), other.left_join(table, pair, grace=draw(st.sampled_from([5, 50])))]
        case _:
            other = draw(st.sampled_from([stream, *streams]))
            how = draw(st.sampled_from([stream.join, stream.left_join, stream.outer_join]))
            before, after = draw(st.sampled_from([(0, 0), (30, 30), (0, 50), (50, -10)]))
            return [how(other, first_of_both, before=before, after=after, grace=draw(st.sampled_from([0, 20])))]


@weak
def pair(value: list[Any], row: list[Any] | None) -> list[Any]:
    """Change both in place: neither is shared."""
    if row is not None:
        row.append("joined")
    value.append("read")
    return [*value, row]


def tables_joined(left: KTable, right: KTable, draw: Callable[[Any], Any], name: str) -> list[KStream]:
    """Change and join two tables at random; then perhaps group the result again."""
    for number in range(draw(st.integers(1, 3))):
        kept = f"{name}-{number}" if draw(st.booleans()) else None
        match draw(st.sampled_from(["filter", "filter not", "map", "transform", "inner", "left", "outer"])):
            case "filter":
                left = left.filter(lambda _, value: len(str(value)) % 3 != 0, name=kept)
            case "filter not":
                left = left.filter_not(lambda key, _: key == "a", name=kept)
            case "map":
                left = left.map_values(mark(name), name=kept)
            case "transform":
                left = left.transform_values(lambda key, value: value and [key, *value], name=kept)
            case kind:
                joins: dict[str, Any] = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}
                left = joins[kind](right, both, name=kept)
    if draw(st.booleans()):
        grouped_again(left, lambda key, value: (key, [len(str(value))]), name)
    return [left.to_stream().map_values(lambda value: value or ["deleted"]), right.to_stream().filter(there)]


@weak
def both(left: list[Any] | None, right: list[Any] | None) -> list[Any]:
    """Change the arguments, and keep them in the result."""
    for value in (left, right):
        if value is not None:
            value.append("joined")
    return [len(str(left)), left, right][: 3 if len(str([left, right])) < 200 else 1]


def there(_: str, value: object) -> bool:
    return value is not None


@weak
def first_of_both(left: list[Any] | None, right: list[Any] | None) -> list[Any]:
    """Change both in place, and return only the first item of each, so that rows do not grow from join to join."""
    for value in (left, right):
        if value is not None:
            value.append("joined")
    return [*(left or ["none"])[:1], *(right or ["none"])[:1]]


def watched(stream: KStream, store: str) -> KStream:
    """Mark the keys as unchanged: what follows stays in the same task, where the order is fully defined."""
    return replace(stream.process(supplier(Watch, store), stores=[store]), key_changed=False)


STEPS = [
    "map",
    "flat",
    "filter",
    "merge",
    "split",
    "aggregate",
    "tally",
    "share",
    "table",
    "join",
    "join aggregate",
    "table join",
    "table join",
    "window",
    "cogroup",
    "hold back",
    "join versions",
    "join late",
    "join streams",
    "sink",
]


Fails = Callable[[str, Any, Any], bool]
"""Whether a step of this name fails on a row with this key and this value."""


def failing(fails: Fails, name: str) -> Callable[[Any, Any], None]:
    def check(key: Any, value: Any) -> None:
        if fails(name, key, value):
            raise ValueError(f"{name} fails on {key}, {value}")

    return check


@st.composite
def topologies(draw: Callable[[Any], Any], *, foreign: bool = False, fails: Fails | None = None) -> Topology:
    """With `foreign` there may also be a join by a foreign key, whose answers arrive at any time.

    With `fails`, each step is followed by one that fails for the rows for which it is true.
    """
    builder = StreamsBuilder("random")
    first, second = (builder.stream(topic, key=str, value=list) for topic in ("in-1", "in-2"))
    streams = [first, second, first.merge(second)]  # one subtopology: the order between tasks is not guaranteed
    for number in range(draw(st.integers(1, 5))):
        stream = draw(st.sampled_from(streams))
        name = f"s{number}"
        made = step(stream, streams, draw, name)
        streams += made if fails is None else [one.peek(failing(fails, f"{name}-{n}")) for n, one in enumerate(made)]
    if foreign and draw(st.booleans()):
        left, right = (draw(st.sampled_from(streams)).to_table() for _ in range(2))
        join = draw(st.sampled_from([left.join, left.left_join]))
        join(right, both, foreign_key=lambda value: "abcd"[len(str(value)) % 4]).to_stream().to(FOREIGN)
    for stream in streams:
        stream.to(draw(st.sampled_from(OUTPUTS)))
    return builder.build()


def records() -> st.SearchStrategy[list[DriverRecord]]:
    record = st.builds(
        DriverRecord,
        st.sampled_from(["in-1", "in-2"]),
        st.sampled_from(["a", "b", "c", "d"]),
        st.lists(st.integers(0, 9), min_size=1, max_size=2),
        st.integers(0, 200),
        st.just(-1),
    )
    return st.lists(record, min_size=1, max_size=25)
