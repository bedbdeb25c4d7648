"""The options of a worker: one name each, in code, on the command line and in the environment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class OnError(Enum):
    """What happens to a record that a step, or a serde, cannot take."""

    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True)
class WorkerConfig:
    commit_interval: int = 100
    """Milliseconds between commits under load; a worker that has caught up commits sooner."""
    commit_pause: int = 2
    """Milliseconds that caught-up commits keep between them."""
    cache: int = 10_000_000
    """Bytes of rows that stores keep in front of their bytes; 0 forwards and logs every update."""
    chunk: int = 10_000
    """Records in a round at most. Results do not depend on it."""
    on_error: OnError = OnError.FAIL
    create_topics: int = 0
    """Create a topic that a sink writes to and that does not exist, with so many partitions; 0 refuses."""
    accept_changes: bool = False
    """Start although the topology no longer fits the state it left behind."""
