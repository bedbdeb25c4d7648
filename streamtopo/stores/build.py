"""Descriptions of stores for processors of your own."""

from __future__ import annotations

from collections.abc import Mapping

from streamtopo.durations import Duration, milliseconds
from streamtopo.errors import StoreError
from streamtopo.serdes import SerdeLike, serde_of
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.versions import chain_serde


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


def versioned_store(
    name: str,
    *,
    history: Duration,
    key: SerdeLike = bytes,
    value: SerdeLike = bytes,
    logged: bool = True,
    topic_config: Mapping[str, str] | None = None,
) -> StoreSpec:
    """Rows that can be asked for as of a time, as far back as `history`."""
    kept = milliseconds(history)
    if kept < 0:
        raise StoreError(f'store "{name}" is to keep a history of {kept} ms; give 0 or more')
    return StoreSpec(
        name,
        serde_of(key, key=True),
        chain_serde(serde_of(value)),
        Kind.VERSIONED,
        logged,
        retention=kept,
        topic_config=topic_config or {},
    )
