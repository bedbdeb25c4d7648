"""Kafka Streams for Python: a topology DSL, exactly-once state, an embedded log or Apache Kafka."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from streamtopo.dsl.builder import StreamsBuilder
from streamtopo.dsl.cogrouped import (
    CogroupedKStream,
    SessionWindowedCogroupedKStream,
    TimeWindowedCogroupedKStream,
)
from streamtopo.dsl.grouped import KGroupedStream
from streamtopo.dsl.grouped_table import KGroupedTable
from streamtopo.dsl.kstream import KStream
from streamtopo.dsl.ktable import KTable
from streamtopo.dsl.notebooks import draw_in_notebooks
from streamtopo.dsl.tables.global_table import GlobalKTable
from streamtopo.dsl.tables.suppress import Suppressed, until_time_limit, until_window_closes
from streamtopo.dsl.windows import SessionWindowedKStream, TimeWindowedKStream
from streamtopo.errors import FailedRecord, StreamtopoError
from streamtopo.hints import no_such_name
from streamtopo.processors import Processor, ProcessorContext, Record, ValueTransformer
from streamtopo.serdes import Serde
from streamtopo.serdes.windowed import session_windowed, time_windowed
from streamtopo.settings.on_error import dead_letter, retry
from streamtopo.stores.build import (
    key_value_store,
    retaining_duplicates,
    session_store,
    versioned_store,
    window_store,
)
from streamtopo.timestamps import MaxAhead, Times, Timestamp
from streamtopo.topology import Topology
from streamtopo.windows import Windowed, Windows

if TYPE_CHECKING:
    from streamtopo.engine.worker.worker import Worker
    from streamtopo.hosting import host, lifespan
    from streamtopo.stores.views.key_value import KeyValueStore, VersionedStore
    from streamtopo.stores.views.session import SessionStore
    from streamtopo.stores.views.window import WindowStore

__version__ = "0.1.0"

draw_in_notebooks()

_RUNNING = {
    "KeyValueStore": "streamtopo.stores.views.key_value",
    "SessionStore": "streamtopo.stores.views.session",
    "VersionedStore": "streamtopo.stores.views.key_value",
    "WindowStore": "streamtopo.stores.views.window",
    "Worker": "streamtopo.engine.worker.worker",
    "host": "streamtopo.hosting",
    "lifespan": "streamtopo.hosting",
}
"""A topology that runs needs these. They are imported on first use: modules that only declare one need not wait."""


if not TYPE_CHECKING:  # type checkers would take any name for one of the module's

    def __getattr__(name: str) -> object:
        if name not in _RUNNING:
            raise no_such_name(__name__, name)
        value = globals()[name] = getattr(import_module(_RUNNING[name]), name)
        return value


__all__ = [
    "CogroupedKStream",
    "FailedRecord",
    "GlobalKTable",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KeyValueStore",
    "MaxAhead",
    "Processor",
    "ProcessorContext",
    "Record",
    "Serde",
    "SessionStore",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "StreamsBuilder",
    "StreamtopoError",
    "Suppressed",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "Times",
    "Timestamp",
    "Topology",
    "ValueTransformer",
    "VersionedStore",
    "WindowStore",
    "Windowed",
    "Windows",
    "Worker",
    "dead_letter",
    "host",
    "key_value_store",
    "lifespan",
    "retaining_duplicates",
    "retry",
    "session_store",
    "session_windowed",
    "time_windowed",
    "until_time_limit",
    "until_window_closes",
    "versioned_store",
    "window_store",
]
