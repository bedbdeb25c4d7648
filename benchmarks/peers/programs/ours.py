"""The workloads on streamtopo, for `streamtopo worker benchmarks.peers.programs.ours:NAME`."""

from __future__ import annotations

from apps.wordcount import topology as word_count
from benchmarks.experiments.latency import topology as latency
from benchmarks.workloads import keyed_count as counting
from benchmarks.workloads import map_filter as mapping
from benchmarks.workloads import stream_table_join as joining
from benchmarks.workloads import tumbling_count as windows

__all__ = ["keyed_count", "latency", "map_filter", "stream_table_join", "tumbling_count", "word_count"]

keyed_count = counting.topology()
map_filter = mapping.topology()
stream_table_join = joining.topology()
tumbling_count = windows.topology()
