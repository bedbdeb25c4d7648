"""Rows with a window in their key: found by time, expired by segments, created and deleted within a commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamtopo.records import Chunk
from streamtopo.serdes import INT, JSON_KEY, STR, Serde
from streamtopo.serdes.windowed import session_windowed, time_windowed_in_store
from streamtopo.stores import Kind, Store, StoreSpec
from streamtopo.stores.rows.state import State
from streamtopo.windows import Windowed

OpenStore = Callable[[], Store]


def window_spec(key: Serde = STR) -> StoreSpec:
    return StoreSpec(
        "w",
        time_windowed_in_store(key, 10),
        INT,
        Kind.TIMESTAMPED_WINDOW,
        cached=True,
        retention=100,
        segment=50,
        by_time=True,
    )


def session_spec() -> StoreSpec:
    return StoreSpec("s", session_windowed(STR), INT, Kind.SESSION, cached=True, retention=100, segment=50)


def put(state: State, *puts: tuple[Windowed, int | None]) -> None:
    index = state.index([window for window, _ in puts])
    rows = state.load(index)
    for key, (window, value) in zip(index, puts, strict=True):
        rows[key] = None if value is None else (value, window.end)
    state.changed(index, Chunk([w for w, _ in puts], [value for _, value in puts], [w.end for w, _ in puts]))


def commit(state: State, store: Store) -> int:
    """Commit, and return the number of changelog records."""
    changes, logged = state.take_changes()
    store.write(changes, {})
    state.expiry.drop()
    state.committed()
    return sum(len(columns.keys) for columns in logged)


def window(key: object, start: int) -> Windowed:
    return Windowed(key, start, start + 10)


@pytest.mark.parametrize("key", [STR, JSON_KEY])
def test_rows_are_found_by_their_time_committed_or_not(key: Serde, open_store: OpenStore) -> None:
    store = open_store()
    state = State(window_spec(key), store, cached=True)
    put(state, (window("b", 0), 1), (window("a", 10), 2), (window("a", 0), 3), (window("c", 20), 4))
    commit(state, store)
    put(state, (window("aa", 0), 5), (window("b", 0), None), (window("a", 10), 6))
    found = state.ordered.by_time(0, 20)
    data: list[Any] = [key for key, _ in found]
    keys = data if state.spec.key.exact else state.spec.key.decode_column(data)
    assert keys == [window("a", 0), window("aa", 0), window("a", 10)]
    assert [row for _, row in found] == [(3, 10), (5, 10), (6, 20)]
    commit(state, store)
    assert [row for _, row in State(window_spec(key), store).ordered.by_time(0, 20)] == [row for _, row in found]


def test_old_segments_expire_a_few_rows_at_a_time(open_store: OpenStore) -> None:
    store = open_store()
    state = State(window_spec(), store, cached=True)
    put(state, *[(window(f"k{number}", number), number) for number in range(0, 200, 10)])
    commit(state, store)
    left, logged = [], []
    for _ in range(6):
        state.expiry.expire(120, 3)
        logged.append(commit(state, store))
        left.append(len(list(store.scan(b"", b"\xff"))))
    assert logged == [3, 3, 3, 1, 0, 0]
    assert left == [40, 30, 30, 20, 20, 20]  # each row is stored twice, and deleted with its segment
    assert [row for _, row in state.ordered.by_time(0, 1000)] == [
        (number, number + 10) for number in range(100, 200, 10)
    ]


def test_rows_put_while_old_ones_expire_are_not_forgotten(open_store: OpenStore) -> None:
    store = open_store()
    state = State(window_spec(), store, cached=True)
    put(state, (window("a", 10), 1))
    state.expiry.expire(0, 10)
    state.expiry.expire(500, 10)
    commit(state, store)
    assert len(list(state.scan(b"", None))) == 1
    state.expiry.expire(500, 10)
    commit(state, store)
    assert list(state.scan(b"", None)) == []


def test_a_row_created_and_deleted_in_one_commit_leaves_no_trace(open_store: OpenStore) -> None:
    store = open_store()
    state = State(session_spec(), store, cached=True)
    first, second = Windowed("a", 0, 0), Windowed("a", 0, 5)
    state.load_also([first])
    put(state, (first, 1))
    state.load_also([second])
    put(state, (first, None), (second, 2))
    assert state.flush().keys == [second]
    rows, changelog = state.take_changes()
    assert [len(columns.keys) for columns in changelog] == [1]
    assert None not in rows.values()
