"""A session store as processors and tests see it: rows by key, start and end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic

from streamtopo.hints import hinted
from streamtopo.records.type_parameters import TK, T
from streamtopo.serdes import encoded
from streamtopo.stores.views.timed import TimedView, WindowedPair
from streamtopo.windows import FOREVER, Windowed


@hinted
class SessionStore(TimedView, Generic[TK, T]):
    """The sessions of a key are in the order of their ends. Sessions older than the retention are not found."""

    def put(self, key: TK, start: int, end: int, value: T | None) -> None:
        """Set the value of a session; None deletes it."""
        self._put(self._window(key, start, end), end, value, end)

    def remove(self, key: TK, start: int, end: int) -> None:
        """Delete a session."""
        self.put(key, start, end, None)

    def fetch_session(self, key: TK, start: int, end: int) -> T | None:
        """The value of the session with this start and end; None if there is none."""
        row = self._row(self._window(key, start, end), end)
        return row and row[0]

    def fetch(self, key: TK) -> Iterator[WindowedPair[TK, T]]:
        """All sessions of a key."""
        return self.find_sessions(key, 0, FOREVER)

    def backward_fetch(self, key: TK) -> Iterator[WindowedPair[TK, T]]:
        """As `fetch`, with the last session first."""
        return self.backward_find_sessions(key, 0, FOREVER)

    def find_sessions(self, key: TK, earliest_end: int, latest_start: int) -> Iterator[WindowedPair[TK, T]]:
        """Sessions of a key that end at `earliest_end` or later, and start at `latest_start` or earlier."""
        return self._found(key, earliest_end, latest_start, reverse=False)

    def backward_find_sessions(self, key: TK, earliest_end: int, latest_start: int) -> Iterator[WindowedPair[TK, T]]:
        """As `find_sessions`, with the last session first."""
        return self._found(key, earliest_end, latest_start, reverse=True)

    def all(self) -> Iterator[WindowedPair[TK, T]]:
        """All sessions."""
        return ((window, row[0]) for window, row in self._between(None, None, 0, FOREVER))

    def _found(self, key: TK, earliest_end: int, latest_start: int, *, reverse: bool) -> Iterator[WindowedPair[TK, T]]:
        found = self._of_key(key, earliest_end, FOREVER, reverse=reverse)
        return ((window, row[0]) for window, row in found if window.start <= latest_start)

    def _window(self, key: Any, start: int, end: int) -> Windowed:
        """It is encoded to find mistakes here: a window newer than all others is not looked up in the store."""
        self._check(key)
        window = Windowed(key, start, end)
        encoded(self._serde, [window], "key")
        return window
