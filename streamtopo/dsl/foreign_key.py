"""Nodes of a join of two tables by a foreign key: through one internal topic to the other table, and back by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamtopo.dsl.naming import next_serde
from streamtopo.operators import foreign_key
from streamtopo.operators.lookup import Lookup
from streamtopo.operators.subscribers import Subscribers
from streamtopo.operators.subscription import RESPONSE, SUBSCRIPTION
from streamtopo.record_fields import without_names
from streamtopo.serdes import BYTES, Serde, SerdeLike
from streamtopo.stores import StoreSpec
from streamtopo.topology import Bindings, Operator, Partitioner, Repartition, SinkNode, SourceNode

if TYPE_CHECKING:
    from streamtopo.dsl.ktable import KTable

_SUBSCRIPTION = "KTABLE-FK-JOIN-SUBSCRIPTION-"


@dataclass(frozen=True)
class ForeignKeyJoin:
    """Nodes are numbered as Kafka Streams numbers them; with a name, internal topics and stores have it too."""

    table: KTable
    other: KTable
    extract: foreign_key.Extract
    joiner: Callable[[Any, Any], Any]
    left: bool
    name: str | None

    def build(self, value: SerdeLike | None) -> KTable:
        from streamtopo.dsl.ktable import kept_table

        self.other.origin.send_old(keep=True)
        self.table.origin.send_old(keep=True)
        topic = self._named(f"{_SUBSCRIPTION}REGISTRATION-", "subscription-registration") + "-topic"
        answered = self._answer(self._subscribe(topic))
        resolved = self._resolve(answered, topic)
        graph = self.table.graph
        node = self._named("KTABLE-FK-JOIN-OUTPUT-", "result")
        store = graph.store_name("KTABLE-FK-JOIN-OUTPUT-STATE-STORE-", self.name)
        spec = StoreSpec(store, self.table.key, next_serde(value, self.table.value), cached=True)
        return kept_table(graph, node, resolved, spec, kept=self.name is not None)

    def _subscribe(self, topic: str) -> str:
        """The source of the subscriptions, in the other table's task."""
        table, extract, sides = self.table, self.extract, self._sides
        node = table.graph.process(
            self._named(f"{_SUBSCRIPTION}REGISTRATION-", "subscription-registration-processor"),
            (table.node,),
            Operator(
                lambda bindings: foreign_key.Subscribe(
                    sides,
                    extract,
                    bindings.count,
                    partition=bindings.partition,
                    unanswered=self._unanswered(bindings, topic),
                )
            ),
        )
        return self._through(topic, "subscription-registration", (node,), sides.foreign, SUBSCRIPTION)

    def _answer(self, subscriptions: str) -> str:
        """The source of the answers, in the table's own task."""
        other, graph, sides = self.other, self.table.graph, self._sides
        own, foreign = (without_names(one.key.name, one.key.kind) for one in (self.table, other))
        meaning = f"rows with key {own} by key {foreign}"
        name = self._named(f"{_SUBSCRIPTION}STATE-STORE-", "subscription-store")
        spec = StoreSpec(name, BYTES, BYTES, meaning=meaning)
        graph.topology.add_store(spec)
        keeping = graph.process(
            self._named(f"{_SUBSCRIPTION}PROCESSOR-", "subscription-receive"),
            (subscriptions,),
            Operator(lambda bindings: foreign_key.keep_subscriptions(bindings.state(spec.name), other.key)),
            (spec.name,),
        )
        rows = other.origin.rows()
        joining = graph.process(
            self._named(f"{_SUBSCRIPTION}PROCESSOR-", "subscription-join-foreign"),
            (keeping,),
            Operator(lambda bindings: foreign_key.answer(sides, Lookup(rows, bindings, parents=1))),
            tuple(kept.store for kept in rows.kept),
            tuple(kept.node for kept in rows.kept),
        )
        telling = graph.process(
            self._named(f"{_SUBSCRIPTION}PROCESSOR-", "foreign-join-subscription"),
            (other.node,),
            Operator(
                lambda bindings: foreign_key.tell_subscribers(
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
                lambda bindings: foreign_key.resolve(
                    sides,
                    Lookup(rows, bindings, parents=1),
                    extract,
                    joiner,
                    bindings.count,
                    unanswered=self._unanswered(bindings, topic),
                )
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

    def _unanswered(self, bindings: Bindings, topic: str) -> foreign_key.Unanswered | None:
        return None if self.left else bindings.shared(topic, lambda: foreign_key.Unanswered(bindings, topic))

    @property
    def _sides(self) -> foreign_key.Sides:
        return foreign_key.Sides(self.table.key, self.table.value, self.other.key, self.other.value)

    def _named(self, prefix: str, suffix: str) -> str:
        return self.table.graph.name(prefix, None if self.name is None else f"{self.name}-{suffix}")
