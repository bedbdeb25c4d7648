"""The node of a join of a stream with a table or a global table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from streamtopo.dsl.graph import next_serde
from streamtopo.dsl.joins.stream_join import JoinedValue, check_keys, repartitioned
from streamtopo.errors import TopologyError
from streamtopo.operators.joins.grace_buffer import Buffer, Buffered, buffer_store
from streamtopo.operators.joins.lookup import Kept, Lookup
from streamtopo.operators.joins.stream_table_join import join_mapped, join_table
from streamtopo.operators.joins.unmatched import How
from streamtopo.settings.durations import Duration, described_milliseconds
from streamtopo.settings.on_error import OnError
from streamtopo.steps import StepLike
from streamtopo.topology.operator import Bindings, Operator, Timing

if TYPE_CHECKING:
    from streamtopo.dsl.kstream import KStream
    from streamtopo.dsl.ktable import KTable
    from streamtopo.dsl.tables.global_table import GlobalKTable


class GlobalJoin(TypedDict, total=False):
    """Options of a join with a global table."""

    name: str | None
    on_error: OnError | None


class TableJoin(GlobalJoin, total=False):
    """Options of a join with a table."""

    grace: Duration
    """How long records wait for late updates of a versioned table."""


class GlobalJoinOptions(GlobalJoin, JoinedValue, total=False):
    """All of them."""


class TableJoinOptions(TableJoin, JoinedValue, total=False):
    """All of them."""


def join_stream_table(
    stream: KStream, table: KTable, joiner: Callable[..., Any], how: How, options: TableJoinOptions
) -> KStream:
    check_keys(stream, table)
    name, with_key = options.get("name"), options.get("with_key", False)
    grace = _grace(stream, table, options.get("grace"))
    left = how == "left"
    stream = repartitioned(stream, name)
    rows = table.origin.rows()
    graph = stream.graph
    node = graph.name("KSTREAM-LEFTJOIN-" if left else "KSTREAM-JOIN-", name)
    buffers: tuple[str, ...] = ()
    if grace is not None:
        buffers = (graph.topology.add_store(buffer_store(f"{node}-Buffer", stream.key, stream.value)).name,)

    def open_step(bindings: Bindings) -> StepLike:
        lookup = Lookup(rows, bindings, as_of=True)
        join = join_table(lookup, joiner, bindings.count, left=left, with_key=with_key)
        if grace is None:
            return join
        time, number = bindings.clock(buffers[0], led=True), bindings.register(f"{buffers[0]} numbers")
        return Buffered(Buffer(bindings.state(buffers[0]), stream.key, time, number, grace), lookup, join)

    graph.process(
        node,
        (stream.node,),
        Operator(
            open_step,
            stateless=grace is None,
            timing=Timing.UNUSED if grace is None else Timing.CHANGED,
            function=joiner,
        ),
        (*(kept.store for kept in rows.kept), *buffers),
        tuple(kept.node for kept in rows.kept),
    )
    if left:
        stream.graph.null_keys.add(node)
    return replace(stream, node=node, value=next_serde(options.get("value"), stream.value))


def join_stream_global(
    stream: KStream,
    table: GlobalKTable,
    key: Callable[[Any, Any], Any],
    joiner: Callable[..., Any],
    how: How,
    options: GlobalJoinOptions,
) -> KStream:
    rows, with_key, left = Kept(table.node, table.store), options.get("with_key", False), how == "left"
    node = stream.graph.process(
        stream.graph.name("KSTREAM-LEFTJOIN-", options.get("name")),  # also for inner joins, as in Kafka Streams
        (stream.node,),
        Operator(
            lambda bindings: join_mapped(
                Lookup(rows, bindings), key, joiner, bindings.count, left=left, with_key=with_key
            ),
            stateless=True,
            function=joiner,
        ),
    )
    if left:
        stream.graph.null_keys.add(node)
    return replace(stream, node=node, value=next_serde(options.get("value"), stream.value))


def _grace(stream: KStream, table: KTable, grace: Duration | None) -> int | None:
    if grace is None:
        return None
    wait = described_milliseconds(grace, "grace=")
    history = table.origin.store.retention if table.versioned and table.origin.store is not None else -1
    if not 0 <= wait <= history:
        raise TopologyError(
            f'"{stream.node}" would wait {wait} ms for the table "{table.node}", which keeps '
            f"{'no' if history < 0 else f'{history} ms of'} history; "
            "read it with versioned= as much as the grace, and give a grace of 0 or more"
        )
    return wait
