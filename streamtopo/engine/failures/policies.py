"""Which answer a failed record gets: that of its node, of the worker's options, or of the application."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streamtopo.engine.failures.hints import hint
from streamtopo.errors import FailedRecord, StepError, safely
from streamtopo.settings.on_error import Answer, Fail, Policy, Retry, answer_of
from streamtopo.topology import Topology
from streamtopo.topology.nodes import Node, ProcessorNode

_INSTEAD = (
    'fix that, or start with --on-error dead-letter (on_error="dead_letter") to keep such records in a topic, '
    "or with skip to drop them"
)

STORE = "store "
"""A store whose rows cannot be written is named like a node, after this."""


class Policies:
    def __init__(self, topology: Topology, option: Policy | None) -> None:
        """`option`: that of the worker."""
        self._nodes = topology.nodes
        self._places = _places(topology.nodes.values())
        self._general: Policy = option or topology.on_error or Fail()

    def placed(self, failed: FailedRecord) -> FailedRecord:
        """With what people know of the node, and a hint."""
        return replace(failed, code_place=self._places.get(failed.node, ""), hint=hint(self._nodes, failed))

    def answer(self, failed: FailedRecord) -> Answer:
        """What to do now. StepError to stop at the record."""
        given = self._given(failed)
        if isinstance(given, Retry):
            given = given if failed.topic is not None and failed.attempts <= given.attempts else given.then
        if isinstance(given, Fail):
            raise StepError(failed, _INSTEAD)
        return given

    def _given(self, failed: FailedRecord) -> Answer:
        node = self._nodes.get(failed.node)
        policy = self._general if node is None or node.on_error is None else node.on_error
        if not callable(policy):
            return policy
        try:
            return answer_of(policy(failed))
        except Exception as error:
            name = getattr(policy, "__qualname__", repr(policy))
            raise StepError(
                failed, f"the on_error function {name} was asked what to do, and failed: {safely(repr, error)}"
            ) from error


def _places(nodes: Iterable[Node]) -> dict[str, str]:
    """The place of each node, and of the first one that uses a store."""
    places: dict[str, str] = {}
    for node in nodes:
        stores = (*node.stores, *node.uses) if isinstance(node, ProcessorNode) else ()
        for name in (node.name, *[STORE + store for store in stores]):
            places.setdefault(name, node.place)
    return places
