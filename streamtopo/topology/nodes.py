"""What a topology is made of: sources, processors, sinks, internal topics, and the parts that run as tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from streamtopo.errors import TopologyError
from streamtopo.serdes import Serde
from streamtopo.settings.on_error import Policy
from streamtopo.stores import StoreSpec
from streamtopo.timestamps import MaxAhead, Timestamp
from streamtopo.topology.code_places import CodePlace
from streamtopo.topology.operator import Operator

Partitioner = Callable[[str, Any, Any, int], int | None]
"""(topic, key, value, number of partitions) -> a partition, or None for the default one."""


@dataclass(frozen=True)
class SourceNode:
    name: str
    topics: tuple[str, ...]
    key: Serde
    value: Serde
    pattern: re.Pattern[str] | None = None
    timestamp: Timestamp | None = None
    parents: tuple[str, ...] = ()
    everywhere: bool = False
    """Every worker reads all partitions, into a store that all its tasks can read."""
    raw: bool = False
    """Keys and values are forwarded as bytes, to a node that expects bytes."""
    max_ahead: MaxAhead | Literal["default"] | None = "default"
    """How far its records may be ahead of the wall clock; "default": the option of the worker."""
    on_error: Policy | None = None
    """What to do with records that cannot be decoded; None: as everywhere."""
    code_place: CodePlace | None = field(default=None, compare=False)
    """Where the user's program makes it; the topology finds that when the node is added."""

    @property
    def place(self) -> str:
        """What people know it by: the topics that it reads, and where the program makes it."""
        read = f"all {self.pattern.pattern}" if self.pattern else ", ".join(self.topics)
        return _joined(f"reads {read}", self.code_place)

    def reads(self, topic: str) -> bool:
        return topic in self.topics or self.matches(topic)

    def matches(self, topic: str) -> bool:
        return self.pattern is not None and self.pattern.fullmatch(topic) is not None


@dataclass(frozen=True)
class ProcessorNode:
    name: str
    parents: tuple[str, ...]
    operator: Operator
    stores: tuple[str, ...] = ()
    watches: tuple[str, ...] = ()
    """Nodes that keep tables which this one reads: it is sent each row that they put, in order with its own rows."""
    as_forwarded: bool = False
    """Rows that a cache holds back are sent to it when they are forwarded, not when they are put."""
    uses: tuple[str, ...] = ()
    """Stores that it works on, although the description shows them at its parents."""
    on_error: Policy | None = None
    """What to do with records that it fails on; None: as everywhere."""
    code_place: CodePlace | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        return str(self.code_place or "")


@dataclass(frozen=True)
class SinkNode:
    name: str
    parents: tuple[str, ...]
    topic: str | Callable[..., str]
    key: Serde
    value: Serde
    partitioner: Partitioner | None = None
    on_error: Policy | None = None
    """What to do with records that cannot be written; None: as everywhere."""
    code_place: CodePlace | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        """What people know it by: the topic that it writes, and where the program makes it."""
        return _joined(f"writes {self.topic}" if isinstance(self.topic, str) else "", self.code_place)


def _joined(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part)


Node = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True)
class Repartition:
    """An internal topic between subtopologies; without a count it has as many partitions as its readers or writers."""

    topic: str
    partitions: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.partitions is not None and (not isinstance(self.partitions, int) or self.partitions < 1):
            raise TopologyError(f'"{self.topic}" would have {self.partitions!r} partitions; give 1 or more')


@dataclass(frozen=True)
class Subtopology:
    """Nodes that are connected, by edges or by a store. It runs as one task for each partition."""

    number: int
    nodes: tuple[Node, ...]
    stores: tuple[StoreSpec, ...]

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        return tuple(node for node in self.nodes if isinstance(node, SourceNode))

    @property
    def sinks(self) -> tuple[SinkNode, ...]:
        return tuple(node for node in self.nodes if isinstance(node, SinkNode))

    @property
    def everywhere(self) -> bool:
        """It feeds a global store: every worker runs it once, over all partitions."""
        return any(source.everywhere for source in self.sources)
