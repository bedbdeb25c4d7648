"""Which view a store is seen through."""

from __future__ import annotations

from collections.abc import Callable

from streamtopo.stores import Kind
from streamtopo.stores.session_view import SessionStore
from streamtopo.stores.state import State
from streamtopo.stores.views import KeyValueStore
from streamtopo.stores.window_view import WindowStore

StoreView = KeyValueStore | WindowStore | SessionStore


def view_of(
    state: State, now: Callable[[], int], observed: Callable[[int], int], expired: Callable[[], None]
) -> StoreView:
    """`now` gives the time of what is put; `observed` is told a time in a key, and returns the largest so far."""
    match state.spec.kind:
        case Kind.WINDOW | Kind.TIMESTAMPED_WINDOW:
            return WindowStore(state, now, observed, expired)
        case Kind.SESSION:
            return SessionStore(state, now, observed, expired)
        case _:
            return KeyValueStore(state, now)
