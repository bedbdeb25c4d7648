"""The workloads on streamtopo, for `streamtopo worker benchmarks.peers.programs.ours:NAME`."""

from __future__ import annotations

from apps.wordcount import topology as word_count
from benchmarks.experiments.latency import topology as latency
from benchmarks.workloads import keyed_count as counting
from benchmarks.workloads import map_filter as mapping
from benchmarks.workloads import stream_table_join as joining
from benchmarks.workloads import tumbling_count as windows
from streamtopo import StreamsBuilder, Topology, Windows

__all__ = ["backlog", "keyed_count", "latency", "map_filter", "stream_table_join", "tumbling_count", "word_count"]


def _backlog() -> Topology:
    builder = StreamsBuilder("backlog")
    users = builder.stream("events", key=str, value=dict).group_by(lambda key, event: str(event["user"]), key=str)
    users.windowed_by(Windows.tumbling("1s", grace="5s")).count(name="counts").to_stream().to("counted")
    return builder.build()


backlog = _backlog()
keyed_count = counting.topology()
map_filter = mapping.topology()
stream_table_join = joining.topology()
tumbling_count = windows.topology()
