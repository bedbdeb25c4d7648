"""What a topology says about the bytes in a topic, as far as that cannot be seen from the bytes."""

from __future__ import annotations

from typing import NamedTuple

from streamtopo.declarations import declared_serdes
from streamtopo.errors import TopologyError
from streamtopo.serdes import BOOL, FLOAT, INT, STR, Serde
from streamtopo.topology import Topology

NUMBERS = {serde.name: serde for serde in (INT, FLOAT, BOOL)}
AnyShape = str | None
"""The name of a number's serde, or of text; None for what shows by itself."""


class Shapes(NamedTuple):
    key: AnyShape = None
    value: AnyShape = None


def shapes_of(topology: Topology, topic: str) -> Shapes:
    """The first that is declared where the topology reads, writes or logs the topic."""
    found = list(declared_serdes(topology, topic))
    if not found:
        name = topology.application_id
        raise TopologyError(
            f'the topology "{name}" neither reads nor writes "{topic}"; leave --app out, or name another'
        )
    keys, values = zip(*found, strict=True)
    return Shapes(_first_known(keys), _first_known(values))


def _first_known(serdes: tuple[Serde, ...]) -> AnyShape:
    known = (*NUMBERS.values(), STR)
    return next((serde.name for serde in serdes if serde in known), None)
