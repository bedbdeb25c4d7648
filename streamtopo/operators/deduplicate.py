"""A processor that forwards a record only if no record with the same id was forwarded near its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo.processors import Processor, ProcessorContext, Record


class Deduplicating(Processor):
    """Ids and times of forwarded records are kept. A record without an id is forwarded and not kept."""

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
