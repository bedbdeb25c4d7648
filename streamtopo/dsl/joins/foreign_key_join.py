"""The nodes of a join of two tables by a foreign key: an internal topic to the other table, and another one back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamtopo.dsl.graph import next_serde
from streamtopo.dsl.tables.origin import upserted
from streamtopo.operators.joins import foreign_key_join
from streamtopo.operators.joins.lookup import Lookup
from streamtopo.operators.joins.subscribers import Subscribers
from streamtopo.operators.joins.subscription import RESPONSE, SUBSCRIPTION
from streamtopo.serdes import BYTES, Serde, SerdeLike
from streamtopo.serdes.record_fields import without_names
from streamtopo.stores import StoreSpec
from streamtopo.topology.nodes import Partitioner, Repartition, SinkNode, SourceNode
from streamtopo.topology.operator import Bindings, Operator

if TYPE_CHECKING:
    from streamtopo.dsl.ktable import KTable

_SUBSCRIPTION = "KTABLE-FK-JOIN-SUBSCRIPTION-"


@dataclass(frozen=True)
class ForeignKeyJoin:
    """Nodes are numbered as in Kafka Streams. A name is also used for internal topics and stores."""

    table: KTable
    other: KTable
    extract: foreign_key_join.Extract
    joiner: Callable[[Any, Any], Any]
    left: bool
    name: str | None

    def build(self, value: SerdeLike | None) -> KTable:
        self.other.origin.send_old(keep=True)
        self.table.origin.send_old(keep=True)
        topic = self._named(f"{_SUBSCRIPTION}REGISTRATION-", "subscription-registration") + "-topic"
        answered = self._answer(self._subscribe(topic))
        resolved = self._resolve(answered, topic)
        graph = self.table.graph
        node = self._named("KTABLE-FK-JOIN-OUTPUT-", "result")
        store = graph.store_name("KTABLE-FK-JOIN-OUTPUT-STATE-STORE-", self.name)
        spec = StoreSpec(store, self.table.key, next_serde(value, self.table.value), cached=True)
        origin = upserted(graph, node, resolved, spec, kept=self.name is not None)
        return replace(self.table, node=node, value=spec.value, origin=origin)

    def _subscribe(self, topic: str) -> str:
        """Add the nodes up to the source of the subscriptions, in tasks of the other table."""
        table, extract, sides = self.table, self.extract, self._sides
        node = table.graph.process(
            self._named(f"{_SUBSCRIPTION}REGISTRATION-", "subscription-registration-processor"),
            (table.node,),
            Operator(
                lambda bindings: foreign_key_join.Subscribe(
                    sides,
                    extract,
                    bindings.count,
                    partition=bindings.partition,
                    unanswered=self._unanswered(bindings, topic),
                ),
                function=extract,
                makes="key",
            ),
        )
        return self._through(topic, "subscription-registration", (node,), sides.foreign, SUBSCRIPTION)

    def _answer(self, subscriptions: str) -> str:
        """Add the nodes up to the source of the answers, in tasks of this table."""
        other, graph, sides = self.other, self.table.graph, self._sides
        own, foreign = (without_names(one.key.name, one.key.kind) for one in (self.table, other))
        meaning = f"rows with key {own} by key {foreign}"
        name = self._named(f"{_SUBSCRIPTION}STATE-STORE-", "subscription-store")
        spec = StoreSpec(name, BYTES, BYTES, meaning=meaning)
        graph.topology.add_store(spec)
        keeping = graph.process(
            self._named(f"{_SUBSCRIPTION}PROCESSOR-", "subscription-receive"),
            (subscriptions,),
            Operator(lambda bindings: foreign_key_join.keep_subscriptions(bindings.state(spec.name), other.key)),
            (spec.name,),
        )
        rows = other.origin.rows()
        joining = graph.process(
            self._named(f"{_SUBSCRIPTION}PROCESSOR-", "subscription-join-foreign"),
            (keeping,),
            Operator(lambda bindings: foreign_key_join.answer(sides, Lookup(rows, bindings))),
            tuple(kept.store for kept in rows.kept),
            tuple(kept.node for kept in rows.kept),
        )
        telling = graph.process(
            self._named(f"{_SUBSCRIPTION}PROCESSOR-", "foreign-join-subscription"),
            (other.node,),
            Operator(
                lambda bindings: foreign_key_join.answer_subscribers(
                    sides, Subscribers(bindings.state(spec.name), other.key), bindings.count
                )
            ),
            (spec.name,),
            (keeping,),
        )
        topic = self._named(f"{_SUBSCRIPTION}RESPONSE-", "subscription-response") + "-topic"
        return self._through(
            topic,
            "subscription-response",
            (joining, telling),
            BYTES,
            RESPONSE,
            read_key=self.table.key,
            partitioner=lambda topic, key, answer, count: answer.partition,
        )

    def _resolve(self, answers: str, topic: str) -> str:
        table, extract, joiner, sides = self.table, self.extract, self.joiner, self._sides
        rows = table.origin.rows()
        return table.graph.process(
            self._named(f"{_SUBSCRIPTION}RESPONSE-RESOLVER-PROCESSOR-", "subscription-response-resolver"),
            (answers,),
            Operator(
                lambda bindings: foreign_key_join.resolve(
                    sides,
                    Lookup(rows, bindings),
                    extract,
                    joiner,
                    bindings.count,
                    unanswered=self._unanswered(bindings, topic),
                ),
                function=joiner,
            ),
            tuple(kept.store for kept in rows.kept),
            tuple(kept.node for kept in rows.kept),
        )

    def _through(
        self,
        topic: str,
        name: str,
        parents: tuple[str, ...],
        key: Serde,
        value: Serde,
        *,
        read_key: Serde | None = None,
        partitioner: Partitioner | None = None,
    ) -> str:
        topology = self.table.graph.topology
        sink = self._named("KTABLE-SINK-", f"{name}-sink")
        source = self._named("KTABLE-SOURCE-", f"{name}-source")
        topology.add_repartition(Repartition(topic))
        topology.add(SinkNode(sink, parents, topic, key, value, partitioner))
        topology.add(SourceNode(source, (topic,), read_key or key, value))
        return source

    def _unanswered(self, bindings: Bindings, topic: str) -> foreign_key_join.Unanswered | None:
        return None if self.left else bindings.shared(topic, lambda: foreign_key_join.Unanswered(bindings, topic))

    @property
    def _sides(self) -> foreign_key_join.Sides:
        return foreign_key_join.Sides(self.table.key, self.table.value, self.other.key, self.other.value)

    def _named(self, prefix: str, suffix: str) -> str:
        return self.table.graph.name(prefix, None if self.name is None else f"{self.name}-{suffix}")
