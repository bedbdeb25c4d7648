"""`suppress`: what updates wait for, and the resulting table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamtopo.dsl.graph import ClosingTime, Graph
from streamtopo.dsl.tables.origin import Origin
from streamtopo.errors import TopologyError
from streamtopo.operators.joins.lookup import Derived, Kept, Table
from streamtopo.operators.tables.suppress import Rule, Suppress, held_serde
from streamtopo.records import private
from streamtopo.settings.durations import Duration, described_milliseconds
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.rows.state import Row
from streamtopo.topology.operator import Operator, Timing

if TYPE_CHECKING:
    from streamtopo.dsl.ktable import KTable

WHEN_FULL = ("emit_early", "shut_down")


@dataclass(frozen=True)
class Suppressed:
    """Created by `until_window_closes` or `until_time_limit`."""

    wait: int | None
    """Milliseconds. None: until the window closes."""
    max_records: int | None
    shut_down: bool


def until_window_closes(*, max_records: int | None = None) -> Suppressed:
    """Send only the last update of each window, when it closes. With more rows than `max_records`, the worker stops."""
    return Suppressed(None, _limit(max_records), shut_down=True)


def until_time_limit(wait: Duration, *, max_records: int | None = None, when_full: str = "emit_early") -> Suppressed:
    """Send the last update of each key when stream time is `wait` later than its first update.

    With more than `max_records` keys, send the oldest ones early; with "shut_down", stop the worker.
    """
    time = described_milliseconds(wait, "until_time_limit:")
    if time < 0:
        raise TopologyError(f"until_time_limit({wait!r}) is negative; give 0 ms or more")
    if when_full not in WHEN_FULL:
        raise TopologyError(f'when_full={when_full!r} is not known; give "emit_early" or "shut_down"')
    return Suppressed(time, _limit(max_records), when_full == "shut_down")


def _limit(records: int | None) -> int | None:
    if records is not None and (type(records) is not int or records < 0):
        raise TopologyError(f"max_records is {records!r}; give a number of records, or None for no limit")
    return records


def suppress(table: KTable, suppressed: Suppressed, name: str | None) -> KTable:
    if not isinstance(suppressed, Suppressed):
        raise TopologyError(f"suppress was given {suppressed!r:.80}; give until_window_closes() or until_time_limit(…)")
    if table.origin.versioned:
        raise TopologyError(
            f'"{table.node}" is versioned, and updates that are held back cannot be read as of a time; '
            "suppress a table that is not versioned"
        )
    graph = table.graph
    node = graph.name("KTABLE-SUPPRESS-", name) if name is None else name
    store = graph.store_name("KTABLE-SUPPRESS-STATE-STORE-", None if name is None else f"{name}-store")
    rule = _rule(graph, table.node, suppressed)
    meaning = "held until their window closes" if rule.window_closes else "held from their first update on"
    graph.topology.add_store(StoreSpec(store, table.key, held_serde(table.value), Kind.KEY_VALUE, meaning=meaning))
    operator = Operator(lambda bindings: Suppress(node, rule, bindings.state(store), bindings), timing=Timing.CHANGED)
    graph.process(node, (table.node,), operator, (store,))
    return replace(table, node=node, origin=SuppressedOrigin(node, store, table.origin))


def _rule(graph: Graph, node: str, suppressed: Suppressed) -> Rule:
    if suppressed.wait is not None:
        return Rule(suppressed.wait, max_records=suppressed.max_records, shut_down=suppressed.shut_down)
    closing = _closing(graph, node)
    return Rule(closing.after_end, True, suppressed.max_records, suppressed.shut_down, closing.clocks)


def _closing(graph: Graph, node: str) -> ClosingTime:
    """When the windows of the aggregations before this node close."""
    if node in graph.closing:
        return graph.closing[node]
    parents = graph.topology.nodes[node].parents
    if not parents:
        raise TopologyError(
            f'until_window_closes() follows "{node}", which is not an aggregation in windows that close; '
            "give until_time_limit(…), or put windowed_by(…) before it"
        )
    several = [_closing(graph, parent) for parent in parents]
    return ClosingTime(max(one.after_end for one in several), tuple(name for one in several for name in one.clocks))


@dataclass
class SuppressedOrigin:
    """Look-ups find the last forwarded row, not the one that is held back."""

    node: str
    buffer: str
    parent: Origin
    store = None
    versioned = False

    def rows(self) -> Table:
        self.parent.send_old(keep=True)  # the last forwarded row is the old value of the first update that is held back
        return Derived((self.parent.rows(), Kept(self.node, self.buffer)), _last_forwarded)

    def send_old(self, *, keep: bool) -> bool:
        return self.parent.send_old(keep=keep)


def _last_forwarded(_: Any, row: Row | None, held: Row | None) -> Row | None:
    if held is None:
        return row
    prior = held[0].prior
    return None if prior is None else (private(prior), -1)
