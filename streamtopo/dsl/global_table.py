"""Tables that every worker keeps whole, and joins of streams with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamtopo.dsl.naming import Graph, next_serde
from streamtopo.dsl.stream_table_join import GlobalJoin
from streamtopo.operators.join_table import join_mapped
from streamtopo.operators.lookup import Kept, Lookup
from streamtopo.operators.pending import How
from streamtopo.serdes import Serde
from streamtopo.topology import Operator

if TYPE_CHECKING:
    from streamtopo.dsl.kstream import KStream


@dataclass(frozen=True)
class GlobalKTable:
    """Made by `StreamsBuilder.global_table`. Any record can be joined with any of its rows, whatever its partition."""

    graph: Graph
    node: str
    key: Serde
    value: Serde
    store: str


def join_stream_global(
    stream: KStream,
    table: GlobalKTable,
    key: Callable[[Any, Any], Any],
    joiner: Callable[..., Any],
    how: How,
    options: GlobalJoin,
) -> KStream:
    rows, with_key, left = Kept(table.node, table.store), options.get("with_key", False), how == "left"
    node = stream.graph.process(
        stream.graph.name("KSTREAM-LEFTJOIN-", options.get("name")),  # inner ones too, as Kafka Streams names them
        (stream.node,),
        Operator(
            lambda bindings: join_mapped(
                Lookup(rows, bindings, parents=1), key, joiner, bindings.count, left=left, with_key=with_key
            )
        ),
    )
    if left:
        stream.graph.null_keys.add(node)
    return replace(stream, node=node, value=next_serde(options.get("value"), stream.value))
