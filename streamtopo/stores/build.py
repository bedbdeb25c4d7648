"""Descriptions of stores for processors of your own."""

from __future__ import annotations

from collections.abc import Mapping

from streamtopo.serdes import SerdeLike, serde_of
from streamtopo.stores import Kind, StoreSpec


def key_value_store(
    name: str,
    *,
    key: SerdeLike = bytes,
    value: SerdeLike = bytes,
    timestamped: bool = False,
    logged: bool = True,
    in_memory: bool = False,
    topic_config: Mapping[str, str] | None = None,
) -> StoreSpec:
    """One row a key. With `logged=False` nothing of it survives a crash."""
    kind = Kind.TIMESTAMPED if timestamped else Kind.KEY_VALUE
    return StoreSpec(
        name,
        serde_of(key, key=True),
        serde_of(value),
        kind,
        logged,
        in_memory=in_memory,
        topic_config=topic_config or {},
    )
