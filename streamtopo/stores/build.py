"""Describes the stores of your own processors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streamtopo.errors import StoreError, TopologyError
from streamtopo.serdes import SerdeLike, serde_of
from streamtopo.serdes.windowed import session_windowed, time_windowed_in_store
from streamtopo.settings.durations import Duration, milliseconds
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.rows.layout import segment_of
from streamtopo.stores.rows.versions import chain_serde
from streamtopo.windows import TimeWindows


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
    """One row for each key. With `logged=False`, the rows are lost with the machine."""
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


def window_store(
    name: str,
    *,
    window_size: Duration,
    retention: Duration,
    key: SerdeLike = bytes,
    value: SerdeLike = bytes,
    timestamped: bool = False,
    logged: bool = True,
    in_memory: bool = False,
    topic_config: Mapping[str, str] | None = None,
) -> StoreSpec:
    """Rows by key and window start. A row is deleted when a window starts `retention` or more after it."""
    size, kept = milliseconds(window_size), milliseconds(retention)
    if kept < size:
        raise TopologyError(f'store "{name}" would keep windows of {size} ms for only {kept} ms; give more retention')
    return StoreSpec(
        name,
        time_windowed_in_store(serde_of(key, key=True), size),
        serde_of(value),
        Kind.TIMESTAMPED_WINDOW if timestamped else Kind.WINDOW,
        logged,
        in_memory=in_memory,
        retention=kept,
        segment=segment_of(kept),
        meaning=TimeWindows(0, size, size).meaning,
        topic_config=topic_config or {},
    )


def session_store(
    name: str,
    *,
    retention: Duration,
    key: SerdeLike = bytes,
    value: SerdeLike = bytes,
    logged: bool = True,
    in_memory: bool = False,
    topic_config: Mapping[str, str] | None = None,
) -> StoreSpec:
    """Rows by key, start and end. A session is deleted when another one ends `retention` or more after it."""
    kept = milliseconds(retention)
    return StoreSpec(
        name,
        session_windowed(serde_of(key, key=True)),
        serde_of(value),
        Kind.SESSION,
        logged,
        in_memory=in_memory,
        retention=kept,
        segment=segment_of(kept),
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
    """Rows that can be read as of an earlier time, as far back as `history`."""
    kept = milliseconds(history)
    if kept < 0:
        raise StoreError(f'store "{name}" would keep a history of {kept} ms; give 0 or more')
    return StoreSpec(
        name,
        serde_of(key, key=True),
        chain_serde(serde_of(value)),
        Kind.VERSIONED,
        logged,
        retention=kept,
        topic_config=topic_config or {},
    )


def retaining_duplicates(store: StoreSpec) -> StoreSpec:
    """A window store that keeps all rows with the same key and start, in the order in which they were put.

    They cannot be deleted; `fetch` returns the last one.
    """
    if store.kind not in (Kind.WINDOW, Kind.TIMESTAMPED_WINDOW):
        raise TopologyError(f'store "{store.name}" has no windows, so it cannot keep duplicates; give a window_store')
    return replace(store, key=replace(store.key, exact=False), duplicates=True)
