"""The nodes of a join of two streams, as in Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

from streamtopo.dsl.graph import Graph, next_serde
from streamtopo.errors import TopologyError
from streamtopo.operators.joins.recent import Recent
from streamtopo.operators.joins.stream_join import JoinStreams, KeyedJoiner, StreamSide
from streamtopo.operators.joins.unmatched import LEFT, RIGHT, How, JoinWindow, Pending, pending_serde
from streamtopo.operators.stateless import each
from streamtopo.serdes import BYTES, Serde, SerdeLike
from streamtopo.settings.durations import Duration, described_milliseconds
from streamtopo.settings.on_error import OnError
from streamtopo.stores import Kind, StoreSpec
from streamtopo.topology.operator import Bindings, Operator, Timing

if TYPE_CHECKING:
    from streamtopo.dsl.kstream import KStream
    from streamtopo.dsl.ktable import KTable

_SMALLEST_SEGMENT = 60_000


class JoinedValue(TypedDict, total=False):
    """Options of all joins of a stream: how the joiner is called, and the type that it returns."""

    with_key: bool
    value: SerdeLike


class StreamJoin(TypedDict, total=False):
    """Options of a join with a stream: the window, and names."""

    within: Duration
    before: Duration
    after: Duration
    grace: Duration
    name: str | None
    on_error: OnError | None
    store: str | None


class StreamJoinOptions(StreamJoin, JoinedValue, total=False):
    """All of them."""


def join_streams(
    this: KStream, other: KStream, joiner: Callable[..., Any], how: How, options: StreamJoinOptions
) -> KStream:
    check_keys(this, other)
    window, name, store = join_window(this, options), options.get("name"), options.get("store")
    graph = this.graph
    left = repartitioned(this, name and f"{name}-left")
    right = repartitioned(other, name and f"{name}-right")
    nodes = _names(graph, how, name)
    stores = _stores(nodes, how, store, (left, right), window)
    for spec in stores:
        graph.topology.add_store(spec)
    this_store, other_store, *shared = (spec.name for spec in stores)
    graph.process(nodes.this_windowed, (left.node,), Operator(lambda _: each), (this_store,))
    graph.process(nodes.other_windowed, (right.node,), Operator(lambda _: each), (other_store,))
    graph.process(nodes.this, (nodes.this_windowed,), Operator(lambda _: each), (other_store, *shared))
    graph.process(nodes.other, (nodes.other_windowed,), Operator(lambda _: each), (this_store, *shared))
    keyed_joiner = joiner if options.get("with_key") else without_key(joiner)

    def open_step(bindings: Bindings) -> JoinStreams:
        return _opened(bindings, nodes.merge, stores, left.key, keyed_joiner, window, how)

    used = tuple(spec.name for spec in stores)
    timing = Timing.USED if how == "inner" else Timing.CHANGED
    graph.process(
        nodes.merge, (nodes.this, nodes.other), Operator(open_step, timing=timing, function=joiner), uses=used
    )
    if how != "inner":
        graph.null_keys.add(nodes.merge)
    return replace(left, node=nodes.merge, value=next_serde(options.get("value"), left.value))


def check_keys(stream: KStream, other: KStream | KTable) -> None:
    if stream.key != other.key:
        raise TopologyError(
            f"{stream!r} and {other!r} are joined by key, but their keys are {stream.key.name} and "
            f"{other.key.name}; declare the same type for both"
        )


def join_window(stream: KStream, options: StreamJoin) -> JoinWindow:
    within = options.get("within")
    before, after = options.get("before", within), options.get("after", within)
    if before is None or after is None:
        raise TopologyError(
            f"the join of {stream!r} with a stream needs to know which times match; "
            'give within="10s", or before= and after='
        )
    names = ("within", "within") if within is not None else ("before", "after")
    spans = zip((*names, "grace"), (before, after, options.get("grace", 0)), strict=True)
    window = JoinWindow(*(described_milliseconds(span, f"{name}=") for name, span in spans))
    if window.before + window.after < 0 or window.grace < 0:
        raise TopologyError(
            f"the window of the join of {stream!r} ends before it begins: before {window.before} ms, after "
            f"{window.after} ms, grace {window.grace} ms; before + after, and grace, must be 0 or more"
        )
    return window


def repartitioned(stream: KStream, name: str | None) -> KStream:
    """The stream with equal keys in one task. Joins of the same stream share one topic, unless they have names."""
    if not stream.key_changed:
        return stream
    if name is not None:
        return stream.repartitioned(name, named=True)
    shared: KStream | None = stream.graph.repartitioned.get(stream.node)
    if shared is None:
        shared = stream.graph.repartitioned[stream.node] = stream.repartitioned(stream.node)
    else:
        for prefix in ("KSTREAM-SINK-", "KSTREAM-FILTER-", "KSTREAM-SOURCE-"):  # Kafka Streams numbers them again
            stream.graph.name(prefix)
    return shared


def without_key(joiner: Callable[[Any, Any], Any]) -> KeyedJoiner:
    return lambda _, left, right: joiner(left, right)


@dataclass(frozen=True)
class _Names:
    """The names of the nodes, and the prefixes for generated names of stores."""

    this_windowed: str
    other_windowed: str
    this: str
    other: str
    merge: str
    generated: tuple[str, str]


def _names(graph: Graph, how: How, given: str | None) -> _Names:
    this, other = _suffixes(how)
    this_windowed = graph.name("KSTREAM-WINDOWED-", given and f"{given}-this-windowed")
    other_windowed = graph.name("KSTREAM-WINDOWED-", given and f"{given}-other-windowed")
    generated = (
        graph.name("KSTREAM-OUTERTHIS-" if how == "outer" else "KSTREAM-JOINTHIS-"),
        graph.name("KSTREAM-JOINOTHER-" if how == "inner" else "KSTREAM-OUTEROTHER-"),
    )
    return _Names(
        this_windowed,
        other_windowed,
        generated[0] if given is None else f"{given}{this}",
        generated[1] if given is None else f"{given}{other}",
        graph.name("KSTREAM-MERGE-", given and f"{given}-merge"),
        generated,
    )


def _suffixes(how: How) -> tuple[str, str]:
    return (
        "-outer-this-join" if how == "outer" else "-this-join",
        "-other-join" if how == "inner" else "-outer-other-join",
    )


def _stores(
    nodes: _Names, how: How, given: str | None, streams: tuple[KStream, KStream], window: JoinWindow
) -> list[StoreSpec]:
    """A store for the rows of each side and, unless the join is inner, one for rows without a match."""
    bases = nodes.generated if given is None else [f"{given}{suffix}" for suffix in _suffixes(how)]
    specs = [
        StoreSpec(
            f"{base}-store",
            _key_of_natural(stream.key, "with time"),
            stream.value,
            Kind.JOIN,
            retention=window.retention,
            segment=max(window.retention // 2, _SMALLEST_SEGMENT),
        )
        for base, stream in zip(bases, streams, strict=True)
    ]
    if how == "inner":
        return specs
    number = nodes.generated[0].rpartition("-")[2]
    base = f"KSTREAM-OUTERSHARED-{number}" if given is None else f"{given}-{how}-shared-join"
    values = pending_serde(streams[0].value, streams[1].value)
    return [*specs, StoreSpec(f"{base}-store", _key_of_natural(streams[0].key, "by time"), values, Kind.KEY_VALUE)]


def _key_of_natural(key: Serde, with_what: str) -> Serde:
    """The join encodes keys itself. The name says what they are made of."""
    return replace(BYTES, name=f"{key.name} {with_what}", kind=key.kind)


def _opened(
    bindings: Bindings,
    node: str,
    stores: list[StoreSpec],
    key: Serde,
    joiner: KeyedJoiner,
    window: JoinWindow,
    how: How,
) -> JoinStreams:
    def side(number: int, *, alone: bool) -> StreamSide:
        spec = stores[number]
        time, last = bindings.clock(spec.name), bindings.register(f"{spec.name} numbers")
        return StreamSide(Recent(bindings.state(spec.name)), spec.value, time, last, alone)

    sides = side(LEFT, alone=how != "inner"), side(RIGHT, alone=how == "outer")
    pending = None
    if how != "inner":
        pending = Pending(bindings.state(stores[2].name), window, bindings.register(f"{node} lowest"))
    return JoinStreams(sides, key, joiner, window, bindings.clock(node, led=True), pending, bindings.count)
