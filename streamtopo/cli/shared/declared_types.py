"""The types of keys and values that a topology declares for a topic and that the bytes do not show."""

from __future__ import annotations

from typing import NamedTuple

from streamtopo.errors import TopologyError
from streamtopo.serdes import BOOL, FLOAT, INT, STR, Serde
from streamtopo.topology import Topology
from streamtopo.topology.topic_serdes import declared_serdes

NUMBERS = {serde.name: serde for serde in (INT, FLOAT, BOOL)}
TypeName = str | None
"""Name of the serde for numbers or text; None if the type follows from the bytes."""


class DeclaredTypes(NamedTuple):
    key: TypeName = None
    value: TypeName = None


def declared_types(topology: Topology, topic: str) -> DeclaredTypes:
    """Return the first types that are declared where the topology reads, writes or logs the topic."""
    found = list(declared_serdes(topology, topic))
    if not found:
        name = topology.application_id
        raise TopologyError(
            f'the topology "{name}" neither reads nor writes "{topic}"; remove --app, or give another one'
        )
    keys, values = zip(*found, strict=True)
    return DeclaredTypes(_first_known(keys), _first_known(values))


def _first_known(serdes: tuple[Serde, ...]) -> TypeName:
    known = (*NUMBERS.values(), STR)
    return next((serde.name for serde in serdes if serde in known), None)
