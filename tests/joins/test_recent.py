"""Recent rows: a look-up finds the same rows, whether they are in memory or only in the store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo.operators.joins import recent
from streamtopo.operators.joins.recent import Recent
from streamtopo.serdes import BYTES, STR
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.rows.state import State

SPEC = StoreSpec("rows", BYTES, STR, Kind.JOIN, retention=1 << 40, segment=10)
Put = tuple[bytes, int]


def commit(state: State, store: MemoryStore) -> int:
    """Commit, and return the number of changelog records."""
    changes, logged = state.take_changes()
    store.write(changes, {})
    state.expiry.drop()
    state.committed()
    return sum(len(columns.keys) for columns in logged)


def put(rows: Recent, key: bytes, time: int, value: str, number: int) -> None:
    rows.add(key, time, value.encode())
    rows.put([key], [time], [value.encode()], number)


@pytest.mark.parametrize("most", [0, 3, 1000])
@given(
    puts=st.lists(st.tuples(st.sampled_from([b"a", b"ab", b"b"]), st.integers(0, 60)), max_size=30),
    chunks=st.sets(st.integers(0, 30)),
    commits=st.sets(st.integers(0, 30)),
    restarts=st.sets(st.integers(0, 30)),
)
def test_a_look_up_finds_all_rows_in_order(
    most: int, puts: list[Put], chunks: set[int], commits: set[int], restarts: set[int]
) -> None:
    """Each row finds the earlier ones, in previous chunks and in its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent, "_KEPT", most * 250)
        store = MemoryStore()
        state = State(SPEC, store)
        rows = Recent(state)
        chunk: list[tuple[int, Put]] = []
        for number, (key, time) in enumerate(puts):
            rows.load(0)
            rows.add(key, time, b"v%d" % number)
            chunk.append((number, (key, time)))
            assert_all_found(rows, puts[: number + 1])
            if number in chunks | commits | restarts:
                put_together(rows, chunk)
                chunk = []
            if number in commits | restarts:
                rows.expire(0)
                commit(state, store)
            if number in restarts:
                state = State(SPEC, store)
                rows = Recent(state)
        rows.load(0)
        assert_all_found(rows, puts)


def put_together(rows: Recent, chunk: list[tuple[int, Put]]) -> None:
    keys, times = [key for _, (key, _) in chunk], [time for _, (_, time) in chunk]
    rows.put(keys, times, [b"v%d" % number for number, _ in chunk], chunk[0][0])


def assert_all_found(rows: Recent, puts: list[Put]) -> None:
    for key in (b"a", b"ab", b"b"):
        for first, last in ((0, 60), (10, 19), (5, 35), (59, 60)):
            wanted = [(time, b"v%d" % number) for number, (k, time) in enumerate(puts) if k == key]
            wanted = [row for row in sorted(wanted, key=lambda row: row[0]) if first <= row[0] <= last]
            assert rows.near(key, 0, first, last) == wanted


def test_expired_rows_are_deleted_from_the_store() -> None:
    store = MemoryStore()
    state = State(SPEC, store)
    rows = Recent(state)
    rows.load(0)
    for time in range(50):
        put(rows, b"a", time, "v", time)
    for _ in range(3):
        rows.expire(35)
        commit(state, store)
    assert len(list(store.scan(b"", b"\xff"))) == 20  # rows of the segments from 30 on


def test_old_rows_expire_a_few_at_a_time() -> None:
    store = MemoryStore()
    state = State(SPEC, store)
    rows = Recent(state)
    rows.load(0)
    for time in range(1000):
        put(rows, b"a", time, "v", time)
    left, logged = [], []
    for _ in range(12):
        rows.expire(990)
        logged.append(commit(state, store))
        left.append(len(list(store.scan(b"", b"\xff"))))
    assert logged == [1000, *[100] * 9, 90, 0]
    assert left == [1000, *range(910, 10, -100), 10, 10]  # rows are deleted from the store by segments
