"""The order in which a window store returns the windows of several keys."""

from __future__ import annotations

import pytest

from streamtopo import Processor, Topology, window_store
from streamtopo.testing import Driver

ROWS = [("a", 8), ("c", 2), ("b", 4), ("a", 2)]


@pytest.mark.parametrize(
    ("in_memory", "order"),
    [(True, [("a", 2), ("c", 2), ("b", 4), ("a", 8)]), (False, [("a", 2), ("a", 8), ("b", 4), ("c", 2)])],
)
def test_the_order_is_by_time_in_memory_and_by_segment_and_key_on_disk(
    in_memory: bool, order: list[tuple[str, int]]
) -> None:
    topology = Topology("windows")
    topology.add_source("source", "nothing", key=str, value=str)
    topology.add_processor("processor", Processor, "source")
    spec = window_store("seen", window_size=10, retention=1000, key=str, value=str, in_memory=in_memory)
    topology.add_state_store(spec, "processor")
    store = Driver(topology).store("seen")
    for key, start in ROWS:
        store.put(key, "x", start)

    assert [(window.key, window.start) for window, _ in store.all()] == order
    assert [(window.key, window.start) for window, _ in store.backward_all()] == order[::-1]
    assert [window.start for window, _ in store.fetch_keys_range("a", "a", 0, 9)] == [2, 8]
