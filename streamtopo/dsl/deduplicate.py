"""The node of `KStream.deduplicate`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from streamtopo.dsl.graph import next_serde
from streamtopo.errors import TopologyError
from streamtopo.operators.deduplicate import Deduplicating
from streamtopo.serdes import SerdeLike
from streamtopo.settings.durations import Duration, described_milliseconds
from streamtopo.stores.build import window_store

if TYPE_CHECKING:
    from streamtopo.dsl.kstream import KStream


def deduplicated(
    stream: KStream, within: Duration, by: Callable[[Any, Any], Any], id: SerdeLike | None, name: str | None
) -> KStream:
    apart = described_milliseconds(within, "within=")
    if apart < 1:
        raise TopologyError(f"deduplicate was given within={within!r}; give 1 ms or more")
    store = stream.graph.store_name("KSTREAM-DEDUPLICATE-STATE-STORE-", name)
    if stream.key_changed:
        stream = stream.repartitioned(store)
    spec = window_store(store, window_size=1, retention=apart, key=next_serde(id, stream.key, key=True), value=bool)
    return stream.process_values(partial(Deduplicating, store, by, apart), stores=[spec])
