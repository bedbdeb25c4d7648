"""The node of a stream joined with a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from streamtopo.dsl.naming import next_serde
from streamtopo.dsl.stream_join import check_keys, repartitioned
from streamtopo.operators.join_table import join_table
from streamtopo.operators.lookup import Lookup
from streamtopo.operators.pending import How
from streamtopo.serdes import SerdeLike
from streamtopo.topology import Operator

if TYPE_CHECKING:
    from streamtopo.dsl.kstream import KStream
    from streamtopo.dsl.ktable import KTable


class TableJoin(TypedDict, total=False):
    """Options of a join with a table."""

    with_key: bool
    value: SerdeLike
    name: str | None


def join_stream_table(
    stream: KStream, table: KTable, joiner: Callable[..., Any], how: How, options: TableJoin
) -> KStream:
    check_keys(stream, table)
    name, with_key = options.get("name"), options.get("with_key", False)
    left = how == "left"
    stream = repartitioned(stream, name)
    rows = table.origin.rows()
    operator = Operator(
        lambda bindings: join_table(
            Lookup(rows, bindings, parents=1), joiner, bindings.count, left=left, with_key=with_key
        )
    )
    node = stream.graph.process(
        stream.graph.name("KSTREAM-LEFTJOIN-" if left else "KSTREAM-JOIN-", name),
        (stream.node,),
        operator,
        tuple(kept.store for kept in rows.kept),
        tuple(kept.node for kept in rows.kept),
    )
    if left:
        stream.graph.null_keys.add(node)
    return replace(stream, node=node, value=next_serde(options.get("value"), stream.value))
