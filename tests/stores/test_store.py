"""The protocol of stores, for every implementation: reads, scans, writes, positions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtopo.stores import Store
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.backends.rocks import MemoryBudget, RocksStore
from streamtopo.stores.rows.layout import prefix_of
from tests.stores.conftest import OpenStore

LAST = b"\xff" * 40
ROWS = {b"a": b"1", b"b": b"2", b"b\0": b"3", b"b\xff": b"4", b"c": b"5"}


def rows(store: Store, start: bytes = b"", stop: bytes = LAST, *, reverse: bool = False) -> list[tuple[bytes, bytes]]:
    return list(store.scan(start, stop, reverse=reverse))


def test_get_many_keeps_order_and_duplicates_and_gives_none_for_missing_keys(open_store: OpenStore) -> None:
    store = open_store()
    store.write(ROWS, {})
    assert store.get_many([b"c", b"x", b"a", b"c", b"b\0"]) == [b"5", None, b"1", b"5", b"3"]
    assert store.get_many([]) == []


def test_get_many_takes_any_sequence(open_store: OpenStore) -> None:
    store = open_store()
    store.write(ROWS, {})
    assert store.get_many((b"a", b"c")) == [b"1", b"5"]


def test_the_last_write_of_a_key_wins(open_store: OpenStore) -> None:
    store = open_store()
    store.write({b"a": b"1", b"b": b"1"}, {})
    store.write({b"a": None, b"b": b"2", b"c": None}, {})
    store.write({b"a": b"3"}, {})
    assert rows(store) == [(b"a", b"3"), (b"b", b"2")]
    assert store.get_many([b"a", b"b", b"c"]) == [b"3", b"2", None]


def test_deletes_and_puts_in_one_write(open_store: OpenStore) -> None:
    store = open_store()
    store.write(ROWS, {})
    store.write({b"a": None, b"b": b"new", b"d": b"6", b"nothing": None}, {"s": 9})
    assert rows(store) == [(b"b", b"new"), (b"b\0", b"3"), (b"b\xff", b"4"), (b"c", b"5"), (b"d", b"6")]
    assert store.position("s") == 9


def test_scan_includes_its_start_and_not_its_stop(open_store: OpenStore) -> None:
    store = open_store()
    store.write(ROWS, {})
    everything = sorted(ROWS.items())
    assert rows(store) == everything
    assert rows(store, b"b", b"c") == everything[1:4]
    assert rows(store, b"b\0", b"b\xff") == everything[2:3]
    assert rows(store, b"aa", b"bb") == everything[1:3]


def test_scan_backwards(open_store: OpenStore) -> None:
    store = open_store()
    store.write(ROWS, {})
    everything = sorted(ROWS.items())
    assert rows(store, reverse=True) == everything[::-1]
    assert rows(store, b"b", b"c", reverse=True) == everything[3:0:-1]
    assert rows(store, b"aa", b"bb", reverse=True) == everything[2:0:-1]


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_of_an_empty_range(open_store: OpenStore, reverse: bool) -> None:
    store = open_store()
    assert rows(store, reverse=reverse) == []
    store.write(ROWS, {})
    assert rows(store, b"b", b"b", reverse=reverse) == []
    assert rows(store, b"c", b"a", reverse=reverse) == []
    assert rows(store, b"d", b"e", reverse=reverse) == []
    assert rows(store, b"", b"a", reverse=reverse) == []


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_shows_the_rows_as_they_were_when_it_began(open_store: OpenStore, reverse: bool) -> None:
    store = open_store()
    before = {b"%05d" % number: b"old" for number in range(3000)}
    store.write(before, {})
    scan = store.scan(b"", LAST, reverse=reverse)
    store.write({b"00000": None, b"02999": None, b"00007": b"new", b"1": b"new"}, {})
    seen = [next(scan)]
    store.delete_range(b"00100", b"02900")
    seen += scan
    assert seen == sorted(before.items(), reverse=reverse)


def test_many_ranges_in_any_order(open_store: OpenStore) -> None:
    store = open_store()
    store.write(ROWS, {})
    ranges = [(b"b", b"c"), (b"", b"aa"), (b"c", b"a"), (b"", LAST), (b"b", b"c")]
    assert store.scan_many(ranges) == [rows(store, start, stop) for start, stop in ranges]
    assert store.scan_many([]) == []


def test_scans_may_overlap(open_store: OpenStore) -> None:
    store = open_store()
    store.write(ROWS, {})
    pairs = list(zip(store.scan(b"", LAST), store.scan(b"", LAST, reverse=True), strict=True))
    everything = sorted(ROWS.items())
    assert pairs == list(zip(everything, everything[::-1], strict=True))


def test_an_abandoned_scan_does_not_keep_the_store_open(open_store: OpenStore) -> None:
    store = open_store()
    store.write(ROWS, {})
    scans = [store.scan(b"", LAST), store.scan(b"", LAST)]
    next(scans[0])
    store.close()
    assert rows(open_store()) == sorted(ROWS.items())


def test_large_scans_are_complete(open_store: OpenStore) -> None:
    store = open_store()
    many = {b"k%06d" % number: b"%d" % number * (number % 5) for number in range(12_345)}
    store.write(many, {})
    store.write({b"large%d" % number: bytes(400_000) for number in range(9)}, {})
    many |= {b"large%d" % number: bytes(400_000) for number in range(9)}
    assert rows(store) == sorted(many.items())
    assert rows(store, reverse=True) == sorted(many.items(), reverse=True)


def test_stores_of_one_task_never_mix(open_store: OpenStore) -> None:
    store = open_store()
    names = ["s", "s1", "s.", "s-", "st", "S"]
    keys = [b"", b"\0", b"\1", b"1", b"\xff", b"\xff\xff"]
    store.write({prefix_of(name) + key: name.encode() for name in names for key in keys}, dict.fromkeys(names, 1))
    for name in names:
        start, stop = prefix_of(name), name.encode() + b"\1"
        assert rows(store, start, stop) == [(start + key, name.encode()) for key in keys]
        assert rows(store, start, stop, reverse=True) == [(start + key, name.encode()) for key in reversed(keys)]
    store.delete_range(prefix_of("s"), b"s\1")
    assert {value for _, value in rows(store)} == {name.encode() for name in names if name != "s"}


def test_delete_range(open_store: OpenStore) -> None:
    store = open_store()
    store.write(ROWS, {"s": 3})
    store.delete_range(b"c", b"a")
    store.delete_range(b"b", b"b")
    assert rows(store) == sorted(ROWS.items())
    store.delete_range(b"b", b"b\xff")
    assert rows(store) == [(b"a", b"1"), (b"b\xff", b"4"), (b"c", b"5")]
    assert store.get_many([b"b", b"b\0", b"b\xff"]) == [None, None, b"4"]
    store.write({b"b\0": b"again"}, {})
    store.delete_range(b"", b"b")
    assert rows(store) == [(b"b\0", b"again"), (b"b\xff", b"4"), (b"c", b"5")]
    store.delete_range(b"", LAST)
    assert rows(store) == []
    assert store.position("s") == 3


def test_positions_are_kept_by_store(open_store: OpenStore) -> None:
    store = open_store()
    assert store.position("s") is None
    store.write({b"a": b"1"}, {"s": 0, "t": 1 << 60})
    store.write({}, {"s": 7})
    store.write({b"a": b"2"}, {})
    assert [store.position(name) for name in ("s", "t", "u")] == [7, 1 << 60, None]
    assert rows(store) == [(b"a", b"2")]


def test_a_closed_store_can_be_reopened_several_times(open_store: OpenStore) -> None:
    for turn in range(3):
        store = open_store()
        assert store.position("s") == (turn or None)
        assert rows(store) == [(b"%d" % earlier, b"x") for earlier in range(turn)]
        store.write({b"%d" % turn: b"x"}, {"s": turn + 1})
        store.close()
        store.close()


def test_an_empty_write_changes_nothing(open_store: OpenStore) -> None:
    store = open_store()
    store.write({b"a": b"1"}, {"s": 1})
    store.write({}, {})
    assert (rows(store), store.position("s")) == ([(b"a", b"1")], 1)


ODD = [b"k", b"k\0", b"k\xff", b"k\xff\xff\0", b"k" + bytes(range(256)), b"\xff", b"\xff\xff", b"k" * 1_000_000]


def test_any_bytes_are_keys_and_values(open_store: OpenStore) -> None:
    store = open_store()
    values = [b"", b"\0", b"\xff" * 9, bytes(range(256)), b"null", b"", b"\0", b"x" * 1_000_000]
    store.write(dict(zip(ODD, values, strict=True)), {})
    store.close()
    store = open_store()
    assert store.get_many(ODD) == values
    assert rows(store) == sorted(zip(ODD, values, strict=True))


def test_a_value_of_50_mb(open_store: OpenStore) -> None:
    store = open_store()
    value = os.urandom(1_000_000) * 50
    store.write({b"large": value, b"small": b"1"}, {"s": 1})
    store.close()
    store = open_store()
    assert store.get_many([b"small", b"large"]) == [b"1", value]
    assert [key for key, _ in store.scan(b"", LAST, reverse=True)] == [b"small", b"large"]


KEYS = st.one_of(
    st.binary(min_size=1, max_size=3).filter(lambda key: key[0] > 0),
    st.sampled_from([b"\1", b"a", b"a\0", b"a\xff", b"\xff", b"\xff\xff"]),
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.dictionaries(KEYS, st.none() | st.binary(max_size=4), max_size=6)),
        st.tuples(st.just("delete_range"), st.tuples(KEYS, KEYS)),
        st.tuples(st.just("scan"), st.tuples(KEYS, KEYS, st.booleans())),
        st.tuples(st.just("get"), st.lists(KEYS, max_size=6)),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=25,
)


def model_scan(model: dict[bytes, bytes], start: bytes, stop: bytes, reverse: bool) -> list[tuple[bytes, bytes]]:
    return sorted(((key, value) for key, value in model.items() if start <= key < stop), reverse=reverse)


def follow(store: Store, actions: Iterable[tuple[str, object]], reopen: object) -> None:
    model: dict[bytes, bytes] = {}
    position = count()
    last = None
    open_scans = []
    for action in actions:
        match action:
            case "write", dict(changes):
                last = next(position)
                store.write(changes, {"s": last})
                model |= changes
                model = {key: value for key, value in model.items() if value is not None}
            case "delete_range", (bytes(start), bytes(stop)):
                store.delete_range(start, stop)
                model = {key: value for key, value in model.items() if not start <= key < stop}
            case "scan", (bytes(start), bytes(stop), bool(reverse)):
                scan = store.scan(start, stop, reverse=reverse)
                open_scans.append((scan, model_scan(model, start, stop, reverse)))
            case "get", list(keys):
                assert store.get_many(keys) == [model.get(key) for key in keys]
            case "reopen", _:
                assert [list(scan) for scan, _ in open_scans] == [expected for _, expected in open_scans]
                open_scans = []
                store.close()
                store = reopen()  # type: ignore[operator]
        assert store.position("s") == last
    assert [list(scan) for scan, _ in open_scans] == [expected for _, expected in open_scans]
    assert list(store.scan(b"", LAST)) == sorted(model.items())
    store.close()


@given(ACTIONS)
def test_memory_is_like_a_dict(actions: list[tuple[str, object]]) -> None:
    store = MemoryStore()
    follow(store, actions, lambda: store)


@settings(max_examples=25)
@given(ACTIONS)
def test_rocks_is_like_a_dict(actions: list[tuple[str, object]]) -> None:
    memory = MemoryBudget(1 << 20)
    with TemporaryDirectory() as folder:

        def reopen() -> RocksStore:
            return RocksStore(Path(folder) / "rows", memory)

        follow(reopen(), actions, reopen)
