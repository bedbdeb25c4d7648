"""State: the rows of a commit, the record cache, forwarding, and undo."""

from __future__ import annotations

import copy
import struct
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo.records import Chunk, Columns, Headers
from streamtopo.serdes import serde_of
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.rows.layout import prefix_of, stored_rows
from streamtopo.stores.rows.state import State

Put = tuple[Any, Any, int, Headers]
"""Key, value (None deletes), time and headers of one update."""
Logged = tuple[bytes, bytes | None, int, Headers]

NO_HEADERS: Headers = ()
KEYS: dict[Any, list[Any]] = {
    str: ["", "a", "ab", "b", "\0", "é", "\U0010ffff"],
    int: [0, 1, -1, 255, 1 << 40],
    Any: [{}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1.0, "b": 2}, 1, 1.0, True, "1", [1]],
}
MODES = [(True, True), (True, False), (False, False)]
"""Whether the spec asks for a cache, and whether the state has one."""


def spec_of(key: Any = str, *, cached: bool = True, logged: bool = True, kind: Kind = Kind.TIMESTAMPED) -> StoreSpec:
    return StoreSpec("s", serde_of(key, key=True), serde_of(list), kind=kind, cached=cached, logged=logged)


def flat(columns: list[Columns]) -> list[Logged]:
    return [
        (key or b"", value, time, headers)
        for part in columns
        for key, value, time, headers in zip(
            part.keys, part.values, part.timestamps, part.headers or [()] * len(part.keys), strict=True
        )
    ]


class Twin:
    """A State and a plain dict with the same updates; every value passed in or out is changed in place afterwards."""

    def __init__(self, spec: StoreSpec, *, cached: bool, forgetful: bool) -> None:
        self.spec = spec
        self.store = MemoryStore()
        self.state = State(spec, self.store, cached=cached)
        self.forgetful = forgetful
        self.rows: dict[bytes, tuple[list[int], int]] = {}
        self.last: dict[bytes, Put] = {}
        self.log: list[Logged] = []
        self.committed = dict(self.rows)

    def put(self, puts: list[Put]) -> None:
        puts = copy.deepcopy(puts)
        keys, values, times, headers = (list(column) for column in zip(*puts, strict=True))
        chunk = Chunk(keys, values, times, headers if any(headers) else None)
        index = self.state.index(keys)
        rows = self.state.load(index)
        for kept, value, time in zip(index, values, times, strict=True):
            rows[kept] = None if value is None else (copy.deepcopy(value), time)
        forwarded = self.state.changed(index, chunk)
        assert forwarded is chunk if (self.state.forwarding.held is None) else not len(forwarded)
        for one in puts:
            self.note(one)
        change_in_place(values)

    def put_one(self, key: Any, value: Any, time: int) -> None:
        (kept,) = self.state.index([key])
        self.state.row(kept)
        self.state.put(kept, None if value is None else (copy.deepcopy(value), time), time)
        self.note((key, value, time, NO_HEADERS))

    def note(self, put: Put) -> None:
        key, value, time, headers = put
        data = self.spec.key.encode(key)
        self.last.pop(data, None)
        self.last[data] = copy.deepcopy(put)
        self.log.append((data, None if value is None else self.spec.value.encode(value), time, headers))
        if value is None:
            self.rows.pop(data, None)
        else:
            self.rows[data] = (copy.deepcopy(value), time)

    def commit(self) -> None:
        last = list(self.last.values())
        flushed = self.state.flush()
        if self.state.forwarding.held is not None:
            headers = flushed.headers or [()] * len(flushed)
            forwarded = list(zip(flushed.keys, flushed.values, flushed.timestamps, headers, strict=True))
            assert [(self.spec.key.encode(key), *rest) for key, *rest in forwarded] == [
                (self.spec.key.encode(key), value, *rest)
                for key, value, *rest in last
                if value is not None or self.spec.key.encode(key) in self.committed
            ]
            change_in_place(flushed.values)
        changes, logged = self.state.take_changes()
        each = (self.state.forwarding.held is None) and self.spec.cached
        updates = self.log if each else [entry for place, entry in enumerate(self.log) if self.is_last(place)]
        assert flat(logged) == (updates if self.spec.logged else [])
        assert list(changes.items()) == [(b"s\0" + self.spec.key.encode(put[0]), self.stored(put)) for put in last]
        self.store.write(changes, {})
        self.state.committed()
        if self.forgetful:
            self.state.forget_older()
        self.last, self.log, self.committed = {}, [], dict(self.rows)

    def is_last(self, place: int) -> bool:
        return self.log[place][0] not in [key for key, *_ in self.log[place + 1 :]]

    def stored(self, put: Put) -> bytes | None:
        _, value, time, _ = put
        return None if value is None else struct.pack(">q", time) + self.spec.value.encode(value)

    def rollback(self) -> None:
        self.state.rollback()
        self.rows, self.last, self.log = dict(self.committed), {}, []

    def attempt(self, puts: list[Put], keep: bool) -> None:
        before = dict(self.rows), dict(self.last), list(self.log)
        self.state.mark()
        self.put(puts)
        self.state.check()
        if not keep:
            self.state.undo()
            self.rows, self.last, self.log = before
        self.state.unmark()

    def look(self, start: bytes, stop: bytes | None, reverse: bool) -> None:
        found = list(self.state.scan(start, stop, reverse=reverse))
        inside = [row for row in self.rows.items() if start <= row[0] and (stop is None or row[0] < stop)]
        assert found == sorted(inside, reverse=reverse)
        change_in_place([row[0] for _, row in found])


def change_in_place(values: list[Any]) -> None:
    for value in values:
        if value is not None:
            value.append("spoiled")


def actions(key: Any) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    keys, bounds = st.sampled_from(KEYS[key]), st.sampled_from([b"", b"a", b"a\0", b"\x80", b"{", b"\xff"])
    values, times = st.none() | st.lists(st.integers(0, 9), max_size=2), st.integers(0, 99)
    headers = st.sampled_from([(), (), (("h", b"1"),)])
    puts = st.lists(st.tuples(keys, values, times, headers), min_size=1, max_size=6)
    return st.lists(
        st.one_of(
            st.tuples(st.just("put"), puts),
            st.tuples(st.just("put one"), keys, values, times),
            st.tuples(st.just("attempt"), puts, st.booleans()),
            st.tuples(st.just("look"), bounds, st.none() | bounds, st.booleans()),
            st.tuples(st.just("commit")),
            st.tuples(st.just("rollback")),
        ),
        max_size=25,
    )


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(("wanted", "cached"), MODES)
@given(data=st.data(), forgetful=st.booleans(), logged=st.booleans())
def test_state_is_like_a_dict(
    key: Any, wanted: bool, cached: bool, data: st.DataObject, forgetful: bool, logged: bool
) -> None:
    twin = Twin(spec_of(key, cached=wanted, logged=logged), cached=cached, forgetful=forgetful)
    for action, *arguments in data.draw(actions(key)):
        getattr(twin, action.replace(" ", "_"))(*arguments)
    for reverse in (False, True):
        twin.look(b"", None, reverse)
    twin.commit()
    twin.rollback()
    twin.look(b"", None, False)


def updated(state: State, *puts: tuple[Any, Any, int]) -> Chunk:
    keys, values, times = (list(column) for column in zip(*puts, strict=True))
    index = state.index(keys)
    rows = state.load(index)
    for kept, value, time in zip(index, values, times, strict=True):
        rows[kept] = None if value is None else (value, time)
    return state.changed(index, Chunk(keys, values, times))


def committed(state: State, store: MemoryStore) -> list[Logged]:
    changes, logged = state.take_changes()
    store.write(changes, {})
    state.committed()
    return flat(logged)


def test_a_cached_key_is_forwarded_once_in_the_order_of_last_changes() -> None:
    state = State(spec_of(), MemoryStore(), cached=True)
    updated(state, ("a", [1], 1), ("b", [2], 2))
    updated(state, ("c", [3], 3), ("a", [4], 4), ("c", None, 5), ("b", [6], 0))
    flushed = state.flush()
    assert (flushed.keys, flushed.values, flushed.timestamps) == (["a", "b"], [[4], [6]], [4, 0])


def test_caching_starts_again_after_the_commit_that_found_a_failure() -> None:
    store = MemoryStore()
    state = State(spec_of(), store, cached=True)
    state.rollback(hold_back=False)
    assert len(updated(state, ("a", [1], 1))) == 1
    assert committed(state, store) == [(b"a", b"[1]", 1, ())]
    assert len(updated(state, ("a", [2], 2))) == 0
    assert state.flush().values == [[2]]


def test_the_changes_of_a_commit_are_not_kept_in_memory_after_it() -> None:
    store = MemoryStore()
    state = State(spec_of(), store, cached=True)
    state.forwarding.send_old()
    updated(state, ("a", [1], 1))
    state.load_also(["b"])
    assert [key for key, _ in state.scan(b"", None)] == [b"a"]
    changes = weakref.ref(state.changes)
    committed(state, store)
    assert changes() is None
    assert state.forwarding.before == {}
    updated(state, ("c", [2], 2))
    assert [key for key, _ in state.scan(b"", None)] == [b"a", b"c"]


def test_headers_of_an_undone_update_do_not_come_back() -> None:
    state = State(spec_of(), MemoryStore(), cached=True)
    state.mark()
    state.load(["a"])["a"] = ([1], 1)
    state.changed(["a"], Chunk(["a"], [[1]], [1], [(("h", b"1"),)]))
    state.undo()
    state.unmark()
    updated(state, ("b", [2], 2))
    assert state.flush().headers is None


def test_rows_unused_since_the_previous_clean_up_are_forgotten() -> None:
    store = MemoryStore()
    state = State(spec_of(), store)
    sizes = []
    for turn in range(20):
        updated(state, *((f"{turn}-{number}", [number], 1) for number in range(100)))
        state.load(["0-7"])
        committed(state, store)
        sizes.append(state.kept_bytes)
        state.forget_older()
    assert max(sizes[2:]) < 1.2 * sizes[1] < 2.4 * 101 * 300
    assert state.load(["0-7", "1-7"])["1-7"] == ([7], 1)
    assert state.load(["0-7"])["0-7"] == ([7], 1)


def test_a_scan_does_not_see_what_comes_after_it() -> None:
    store = MemoryStore()
    state = State(spec_of(), store)
    updated(state, ("a", [1], 1), ("b", [2], 2))
    committed(state, store)
    updated(state, ("c", [3], 3))
    seen = []
    for key, (value, _) in state.scan(b"", None):
        seen.append((key, value))
        updated(state, (key.decode(), None, 4), ("z", [9], 4))
    assert seen == [(b"a", [1]), (b"b", [2]), (b"c", [3])]
    assert [key for key, _ in state.scan(b"", None)] == [b"z"]


def test_rows_with_and_without_time() -> None:
    columns = Columns([b"a", b"b"], [b"1", None], [7, 8])
    assert stored_rows(spec_of(), columns) == {b"s\0a": struct.pack(">q", 7) + b"1", b"s\0b": None}
    assert stored_rows(spec_of(kind=Kind.KEY_VALUE), columns) == {b"s\0a": b"1", b"s\0b": None}


def test_no_store_name_is_a_prefix_of_another() -> None:
    prefixes = [prefix_of(name) for name in ("s", "s1", "ss", "s-", "s.s")]
    assert [(a, b) for a in prefixes for b in prefixes if a != b and b.startswith(a)] == []


def test_a_flush_has_the_last_values_and_no_rows_created_and_deleted_since() -> None:
    store = MemoryStore()
    state = State(spec_of(), store, cached=True)
    state.forwarding.send_old()

    def flushed(*puts: tuple[str, list[int] | None]) -> list[tuple[str, list[int] | None, list[int] | None]]:
        for key, value in puts:
            state.load([key])[key] = None if value is None else (value, 0)
            state.changed([key], Chunk([key], [value], [0]))
        out = state.flush()
        store.write(state.take_changes()[0], {})
        state.committed()
        return list(zip(out.keys, out.values, out.old or [], strict=True))

    assert flushed(("a", [1]), ("b", [1]), ("a", [2]), ("b", None)) == [("a", [2], None)]
    assert flushed(("a", [3]), ("a", None), ("b", None)) == [("a", None, [2])]
    assert flushed(("a", [4]), ("a", [5])) == [("a", [5], None)]


def test_an_old_value_changed_in_place_does_not_change_what_watchers_look_up() -> None:
    store = MemoryStore()
    state = State(spec_of(), store, cached=True)
    state.forwarding.send_old()
    state.forwarding.watch()
    updated(state, ("a", [1], 1))
    committed(state, store)
    updated(state, ("a", [2], 2))
    (old,) = state.flush().old or []
    old.append("changed by a joiner")
    puts = state.forwarding.take_puts()
    assert puts is not None
    assert puts.before["a"] == ([1], 1)
