"""GlobalKTable: a table of which every worker has all partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from streamtopo.dsl.graph import Graph, shown
from streamtopo.hints import hinted
from streamtopo.records.type_parameters import TK, V
from streamtopo.serdes import Serde


@hinted
@dataclass(frozen=True)
class GlobalKTable(Generic[TK, V]):
    """Created by `StreamsBuilder.global_table`. Records of any partition can be joined with any of its rows."""

    graph: Graph
    node: str
    key: Serde
    value: Serde
    store: str

    def __repr__(self) -> str:
        return shown(self)
