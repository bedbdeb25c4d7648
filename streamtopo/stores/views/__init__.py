"""Stores as processors and tests see them: a view for each kind of store."""

from __future__ import annotations

from collections.abc import Callable

from streamtopo.stores import Kind
from streamtopo.stores.rows.state import State
from streamtopo.stores.views.key_value import KeyValueStore
from streamtopo.stores.views.session import SessionStore
from streamtopo.stores.views.timed import LatestTimes
from streamtopo.stores.views.window import WindowStore

StoreView = KeyValueStore | WindowStore | SessionStore


def view_of(state: State, now: Callable[[], int], times: LatestTimes, expired: Callable[[], None]) -> StoreView:
    """`now` returns the timestamp for rows that are put; `times` knows the latest times in the store's keys."""
    match state.spec.kind:
        case Kind.WINDOW | Kind.TIMESTAMPED_WINDOW:
            return WindowStore(state, now, times, expired)
        case Kind.SESSION:
            return SessionStore(state, now, times, expired)
        case _:
            return KeyValueStore(state, now)
