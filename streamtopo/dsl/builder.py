"""StreamsBuilder: the beginning of each topology."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streamtopo.dsl.graph import Graph
from streamtopo.dsl.kstream import KStream
from streamtopo.dsl.ktable import KTable, table_of, versioned_table_of
from streamtopo.dsl.tables.global_table import GlobalKTable
from streamtopo.errors import TopologyError
from streamtopo.hints import hinted
from streamtopo.operators.tables import conversions
from streamtopo.processors import Processor
from streamtopo.records.type_parameters import KeyOrNone, RowKey, RowValue, ValueOrNone
from streamtopo.serdes import SerdeLike, SerdeOrClass, serde_of
from streamtopo.settings.durations import Duration
from streamtopo.settings.on_error import OnError, policy_of
from streamtopo.stores import StoreSpec
from streamtopo.stores.build import versioned_store
from streamtopo.timestamps import MaxAheadLike, TimestampLike, max_ahead_of, timestamp_of
from streamtopo.topology import Topology
from streamtopo.topology.answering import answering
from streamtopo.topology.loops import check_loops
from streamtopo.topology.names import names_or_pattern
from streamtopo.topology.nodes import SourceNode
from streamtopo.topology.operator import Operator

if TYPE_CHECKING:
    from typing_extensions import TypeForm

OnErrorT = TypeVar("OnErrorT", bound=OnError)


@hinted
class StreamsBuilder:
    """Reads streams and tables from topics. `build` returns the topology with all their operators.

    >>> builder = StreamsBuilder("shout")
    >>> builder.stream("words", value=str).map_values(str.upper).to("shouts")
    >>> print(builder.build().describe())
    Topologies:
       Sub-topology: 0
        Source: KSTREAM-SOURCE-0000000000 (topics: [words])
          --> KSTREAM-MAPVALUES-0000000001
        Processor: KSTREAM-MAPVALUES-0000000001 (stores: [])
          --> KSTREAM-SINK-0000000002
          <-- KSTREAM-SOURCE-0000000000
        Sink: KSTREAM-SINK-0000000002 (topic: shouts)
          <-- KSTREAM-MAPVALUES-0000000001
    <BLANKLINE>
    <BLANKLINE>
    """

    def __repr__(self) -> str:
        return repr(self.graph.topology).replace("Topology", "StreamsBuilder", 1)

    def __init__(self, application_id: str) -> None:
        self.graph = Graph(application_id)

    @overload
    def stream(
        self,
        *topics: str | re.Pattern[str],
        key: SerdeOrClass[KeyOrNone] = ...,
        value: SerdeOrClass[ValueOrNone] = ...,
        timestamp: TimestampLike[KeyOrNone, ValueOrNone] | None = None,
        max_ahead: MaxAheadLike = "default",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[KeyOrNone, ValueOrNone]: ...
    @overload
    def stream(
        self,
        *topics: str | re.Pattern[str],
        key: SerdeOrClass[KeyOrNone] = ...,
        value: TypeForm[ValueOrNone],
        timestamp: TimestampLike[KeyOrNone, ValueOrNone] | None = None,
        max_ahead: MaxAheadLike = "default",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[KeyOrNone, ValueOrNone]: ...
    @answering
    def stream(
        self,
        *topics: str | re.Pattern[str],
        key: Any = bytes,
        value: Any = bytes,
        timestamp: TimestampLike | None = None,
        max_ahead: MaxAheadLike = "default",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream:
        """The records of one or more topics, or of all topics whose whole name matches a pattern.

        `timestamp` says where the time of a record comes from, in milliseconds: the name of a field of its value, or a
        function of (key, value) or (key, value, times). The default is the timestamp in the log. `Timestamp` says what
        to do with invalid times.

        Records further ahead of the wall clock than `max_ahead`, such as "10m", do not move stream time. None: all
        records do. "default": the limit of the worker. See `MaxAhead` for other ways to handle such records.
        """
        node = self.graph.name("KSTREAM-SOURCE-", name)
        names, pattern = names_or_pattern(node, topics)
        source = SourceNode(
            node,
            names,
            serde_of(key, key=True),
            serde_of(value),
            pattern,
            timestamp_of(timestamp),
            max_ahead=max_ahead_of(max_ahead),
        )
        return KStream(self.graph, self._read_once(source), source.key, source.value)

    @overload
    def table(
        self,
        topic: str,
        *,
        key: SerdeOrClass[RowKey] = ...,
        value: SerdeOrClass[RowValue] = ...,
        timestamp: TimestampLike[RowKey, RowValue] | None = None,
        max_ahead: MaxAheadLike = "default",
        versioned: Duration | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[RowKey, RowValue]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: SerdeOrClass[RowKey] = ...,
        value: TypeForm[RowValue],
        timestamp: TimestampLike[RowKey, RowValue] | None = None,
        max_ahead: MaxAheadLike = "default",
        versioned: Duration | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[RowKey, RowValue]: ...
    @answering
    def table(
        self,
        topic: str,
        *,
        key: Any = bytes,
        value: Any = bytes,
        timestamp: TimestampLike | None = None,
        max_ahead: MaxAheadLike = "default",
        versioned: Duration | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable:
        """Read a topic as a table: the latest value of each key. `name` is the name of its store.

        With `versioned="10m"` it keeps this much history: a stream finds the row that was valid at a record's time.
        """
        graph = self.graph
        store = graph.store_name(f"{topic}-STATE-STORE-", name)
        stream: KStream = self.stream(topic, key=key, value=value, timestamp=timestamp, max_ahead=max_ahead)
        if versioned is not None:
            spec = versioned_store(store, history=versioned, key=stream.key, value=stream.value)
            return versioned_table_of(stream, graph.name("KTABLE-SOURCE-"), spec)
        return table_of(stream, graph.name("KTABLE-SOURCE-"), store, kept=name is not None)

    @overload
    def global_table(
        self,
        topic: str,
        *,
        key: SerdeOrClass[RowKey] = ...,
        value: SerdeOrClass[RowValue] = ...,
        timestamp: TimestampLike[RowKey, RowValue] | None = None,
        max_ahead: MaxAheadLike = "default",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> GlobalKTable[RowKey, RowValue]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        key: SerdeOrClass[RowKey] = ...,
        value: TypeForm[RowValue],
        timestamp: TimestampLike[RowKey, RowValue] | None = None,
        max_ahead: MaxAheadLike = "default",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> GlobalKTable[RowKey, RowValue]: ...
    @answering
    def global_table(
        self,
        topic: str,
        *,
        key: Any = bytes,
        value: Any = bytes,
        timestamp: TimestampLike | None = None,
        max_ahead: MaxAheadLike = "default",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> GlobalKTable:
        """Read a topic as a table. Every worker has all its partitions. `name` is the name of its store.

        It is loaded before any task starts. Later updates are applied when they arrive; their timestamps do not matter.
        """
        graph = self.graph
        store = graph.store_name(f"{topic}-STATE-STORE-", name)
        source = SourceNode(
            graph.name("KSTREAM-SOURCE-"),
            (topic,),
            serde_of(key, key=True),
            serde_of(value),
            timestamp=timestamp_of(timestamp),
            max_ahead=max_ahead_of(max_ahead),
        )
        node = graph.name("KTABLE-SOURCE-")
        operator = Operator(lambda bindings: conversions.upsert(bindings.state(store), bindings.count))
        graph.topology.add_global_store(source, node, operator, StoreSpec(store, source.key, source.value))
        return GlobalKTable(graph, node, source.key, source.value, store)

    @answering
    def add_global_store(
        self,
        store: StoreSpec,
        topic: str,
        supplier: Callable[[], Processor],
        *,
        key: SerdeLike = bytes,
        value: SerdeLike = bytes,
        timestamp: TimestampLike | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> str:
        """Add a global store: every worker has all of it. Your own processor fills it from all partitions of a topic.

        All processors can read it by name, without `stores=`.
        """
        graph = self.graph
        source = graph.name("KSTREAM-SOURCE-")
        graph.topology.add_global_processor(
            store,
            topic,
            graph.name("KTABLE-SOURCE-", name),
            supplier,
            source=source,
            key=key,
            value=value,
            timestamp=timestamp,
        )
        return store.name

    def add_state_store(self, store: StoreSpec) -> str:
        """Add a store for your own processors. Returns its name, for `process(stores=[…])`."""
        return self.graph.topology.add_store(store).name

    def on_error(self, answer: OnErrorT) -> OnErrorT:
        """What to do with records that fail in nodes without `on_error=`: an answer, or a function.

        >>> builder = StreamsBuilder("orders")
        >>> @builder.on_error
        ... def decide(failed):
        ...     return "dead_letter" if failed.stage == "decode" else "fail"
        """
        self.graph.topology.on_error = policy_of(answer)
        return answer

    def build(self) -> Topology:
        """Return the topology as it is now, after the checks that need all of it."""
        self.graph.topology.subtopologies()
        check_loops(self.graph.topology.nodes.values())
        return self.graph.topology

    def _read_once(self, source: SourceNode) -> str:
        """If the same topics are read the same way again, the source is shared."""
        for other in self.graph.topology.sources:
            if (other.topics, other.pattern) == (source.topics, source.pattern):
                if other.everywhere:
                    raise TopologyError(
                        f'"{other.topics[0]}" feeds a global store, so it cannot be read as a stream or table too'
                    )
                if replace(other, name=source.name, on_error=source.on_error) != source:
                    raise TopologyError(
                        f"{', '.join(source.topics) or source.pattern} is read twice with different serdes, "
                        "timestamps or max_ahead; read it once, or both times the same way"
                    )
                return other.name
        self.graph.topology.add(source)
        return source.name
