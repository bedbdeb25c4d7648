"""Which view a store is seen through."""

from __future__ import annotations

from collections.abc import Callable

from streamtopo.stores import Kind
from streamtopo.stores.session_view import SessionStore
from streamtopo.stores.state import State
from streamtopo.stores.timed_view import StoreTimes
from streamtopo.stores.views import KeyValueStore
from streamtopo.stores.window_view import WindowStore

StoreView = KeyValueStore | WindowStore | SessionStore


def view_of(state: State, now: Callable[[], int], times: StoreTimes, expired: Callable[[], None]) -> StoreView:
    """`now` gives the time of what is put; `times` says how far the times in the store's keys go."""
    match state.spec.kind:
        case Kind.WINDOW | Kind.TIMESTAMPED_WINDOW:
            return WindowStore(state, now, times, expired)
        case Kind.SESSION:
            return SessionStore(state, now, times, expired)
        case _:
            return KeyValueStore(state, now)
