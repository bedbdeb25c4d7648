"""All workloads by name; each file is one question."""

from __future__ import annotations

from benchmarks.workload import Workload
from benchmarks.workloads import (
    every_update,
    keyed_count,
    map_filter,
    processor,
    restore,
    session_windows,
    shared_store,
    stream_join,
    stream_table_join,
    tumbling_count,
    unique_keys,
    word_count,
)

_FILES = (
    map_filter,
    keyed_count,
    tumbling_count,
    session_windows,
    stream_table_join,
    stream_join,
    every_update,
    unique_keys,
    word_count,
    processor,
    shared_store,
    restore,
)
WORKLOADS: dict[str, Workload] = {file.workload.name: file.workload for file in _FILES}
