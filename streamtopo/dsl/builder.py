"""StreamsBuilder: where a topology begins."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from streamtopo.dsl.global_table import GlobalKTable
from streamtopo.dsl.kstream import KStream
from streamtopo.dsl.ktable import KTable, table_of, versioned_table_of
from streamtopo.dsl.naming import Graph
from streamtopo.durations import Duration
from streamtopo.errors import TopologyError
from streamtopo.operators import tables
from streamtopo.processors import Processor
from streamtopo.serdes import SerdeLike, serde_of
from streamtopo.stores import StoreSpec
from streamtopo.stores.build import versioned_store
from streamtopo.timestamps import MaxAheadLike, TimestampLike, max_ahead_of, timestamp_of
from streamtopo.topology import Operator, SourceNode, Topology, names_or_pattern


class StreamsBuilder:
    """Streams and tables are read from topics here; `build` gives the topology that their operators made.

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

    def __init__(self, application_id: str) -> None:
        self._graph = Graph(application_id)

    def stream(
        self,
        *topics: str | re.Pattern[str],
        key: SerdeLike = bytes,
        value: SerdeLike = bytes,
        timestamp: TimestampLike | None = None,
        max_ahead: MaxAheadLike = "default",
        name: str | None = None,
    ) -> KStream:
        """The records of one or more topics, or of all topics whose whole name matches a pattern.

        `timestamp` says where a record's time is, in milliseconds: the name of a field of its value, or a function of
        (key, value) or (key, value, times); without it the log's timestamp counts. See `Timestamp` for invalid ones.

        Records further ahead of the wall clock than `max_ahead`, such as "10m", do not move stream time; None: all
        do; "default": the limit is the worker's. See `MaxAhead` for other things to do with such records.
        """
        node = self._graph.name("KSTREAM-SOURCE-", name)
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
        return KStream(self._graph, self._read_once(source), source.key, source.value)

    def table(
        self,
        topic: str,
        *,
        key: SerdeLike = bytes,
        value: SerdeLike = bytes,
        timestamp: TimestampLike | None = None,
        max_ahead: MaxAheadLike = "default",
        versioned: Duration | None = None,
        name: str | None = None,
    ) -> KTable:
        """A topic read as a table: the latest value of each key; `name` names its store.

        With `versioned="10m"` it keeps that much history: a stream joined with it finds rows as of its records' times.
        """
        graph = self._graph
        store = graph.store_name(f"{topic}-STATE-STORE-", name)
        stream = self.stream(topic, key=key, value=value, timestamp=timestamp, max_ahead=max_ahead)
        if versioned is not None:
            spec = versioned_store(store, history=versioned, key=stream.key, value=stream.value)
            return versioned_table_of(stream, graph.name("KTABLE-SOURCE-"), spec)
        return table_of(stream, graph.name("KTABLE-SOURCE-"), store, kept=name is not None)

    def global_table(
        self,
        topic: str,
        *,
        key: SerdeLike = bytes,
        value: SerdeLike = bytes,
        timestamp: TimestampLike | None = None,
        max_ahead: MaxAheadLike = "default",
        name: str | None = None,
    ) -> GlobalKTable:
        """A topic read as a table that every worker has whole, all partitions of it; `name` names its store.

        It is there before any task begins; later updates come when they come, whatever their timestamps.
        """
        graph = self._graph
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
        operator = Operator(lambda bindings: tables.upsert(bindings.state(store), bindings.count))
        graph.topology.add_global_store(source, node, operator, StoreSpec(store, source.key, source.value))
        return GlobalKTable(graph, node, source.key, source.value, store)

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
    ) -> str:
        """A store that every worker has whole; a processor of your own keeps it, from all partitions of a topic.

        All processors can read it by its name, without `stores=`.
        """
        graph = self._graph
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
        """A store for processors of your own; its name is what `process(stores=[…])` takes."""
        return self._graph.topology.add_store(store).name

    def build(self) -> Topology:
        """The topology as it stands; checks what can only be checked when it is whole."""
        self._graph.topology.subtopologies()
        return self._graph.topology

    def _read_once(self, source: SourceNode) -> str:
        """Equal reads of the same topics share one source."""
        for other in self._graph.topology.sources:
            if (other.topics, other.pattern) == (source.topics, source.pattern):
                if other.everywhere:
                    raise TopologyError(f'"{other.topics[0]}" feeds a global store, and tasks cannot read it too')
                if replace(other, name=source.name) != source:
                    raise TopologyError(
                        f"{', '.join(source.topics) or source.pattern} is read twice with different serdes, "
                        "timestamps or max_ahead; read it once, or both times the same way"
                    )
                return other.name
        self._graph.topology.add(source)
        return source.name
