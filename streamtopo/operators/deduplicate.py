"""A processor that lets the first record of each id pass, and the next one only when that is long enough ago."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo.processors import Processor, ProcessorContext, Record


class Deduplicating(Processor):
    """What passed is kept by id and time; a record without an id passes and is not kept."""

    def __init__(self, store: str, id_of: Callable[[Any, Any], Any], within: int) -> None:
        self._store = store
        self._id_of = id_of
        self._within = within

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self._passed = context.get_state_store(self._store)

    def process(self, record: Record) -> None:
        id, time, apart = self._id_of(record.key, record.value), record.timestamp, self._within - 1
        if id is not None:
            if any(self._passed.fetch_range(id, max(0, time - apart), time + apart)):
                return
            self._passed.put(id, True, time)
        self.context.forward(record)
