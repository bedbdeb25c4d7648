"""Views of key-value stores, as processors and queries use them."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo.errors import SerdeError, StoreError
from streamtopo.serdes import serde_of
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.rows.state import State
from streamtopo.stores.views.key_value import KeyValueStore, ValueAndTimestamp, after_prefix


class Opened:
    """A view, its state and store, and a clock that counts its readings."""

    def __init__(self, key: Any = str, value: Any = dict, kind: Kind = Kind.TIMESTAMPED) -> None:
        self.store = MemoryStore()
        self.state = State(StoreSpec("s", serde_of(key, key=True), serde_of(value), kind=kind), self.store)
        self.time = 100
        self.view = KeyValueStore(self.state, lambda: self.time)

    def commit(self) -> None:
        """Commit twice, so that nothing is left in memory."""
        for _ in range(2):
            self.store.write(self.state.take_changes()[0], {})
            self.state.committed()
            self.state.forget_older()


@pytest.fixture(params=["pending", "committed", "forgotten"])
def opened(request: pytest.FixtureRequest) -> Opened:
    """Return a view of four rows: in this commit, just committed, or in the store only."""
    opened = Opened(value=int)
    opened.view.put_all([("b", 2), ("a", 1), ("bc", 4), ("c", 3)])
    if request.param != "pending":
        opened.commit()
    if request.param == "forgotten":
        opened.state.rollback()
    return opened


def test_get(opened: Opened) -> None:
    assert [opened.view.get(key) for key in ("a", "bc", "x", "")] == [1, 4, None, None]


def test_get_with_timestamp(opened: Opened) -> None:
    opened.view.put("a", 9, 7)
    assert opened.view.get_with_timestamp("a") == ValueAndTimestamp(9, 7)
    assert opened.view.get_with_timestamp("b") == (2, 100)
    assert opened.view.get_with_timestamp("x") is None


def test_put_if_absent(opened: Opened) -> None:
    assert opened.view.put_if_absent("a", 9) == 1
    assert opened.view.put_if_absent("x", 9) is None
    assert (opened.view.get("a"), opened.view.get("x")) == (1, 9)


def test_delete(opened: Opened) -> None:
    assert opened.view.delete("b") == 2
    assert opened.view.delete("b") is None
    opened.view.put("c", None)
    assert list(opened.view.all()) == [("a", 1), ("bc", 4)]
    opened.view.put("b", 5)
    assert opened.view.get("b") == 5


def test_range_includes_both_ends(opened: Opened) -> None:
    assert list(opened.view.range("b", "c")) == [("b", 2), ("bc", 4), ("c", 3)]
    assert list(opened.view.range("aa", "bb")) == [("b", 2)]
    assert list(opened.view.range(None, "b")) == [("a", 1), ("b", 2)]
    assert list(opened.view.range("bc")) == [("bc", 4), ("c", 3)]
    assert list(opened.view.range("c", "a")) == []
    assert list(opened.view.range()) == list(opened.view.all())


def test_reverse_range(opened: Opened) -> None:
    assert list(opened.view.reverse_range("b", "c")) == [("c", 3), ("bc", 4), ("b", 2)]
    assert list(opened.view.reverse_range(None, "b")) == [("b", 2), ("a", 1)]
    assert list(opened.view.reverse_all()) == list(opened.view.all())[::-1]


def test_prefix_scan(opened: Opened) -> None:
    assert list(opened.view.prefix_scan("b")) == [("b", 2), ("bc", 4)]
    assert list(opened.view.prefix_scan(b"b")) == [("b", 2), ("bc", 4)]
    assert list(opened.view.prefix_scan("bcd")) == []
    assert len(list(opened.view.prefix_scan(""))) == 4


def test_approximate_num_entries(opened: Opened) -> None:
    opened.view.delete("a")
    assert opened.view.approximate_num_entries() == 3


def test_a_store_may_be_changed_during_an_iteration(opened: Opened) -> None:
    for key, value in opened.view.all():
        opened.view.put(key, value * 10)
        opened.view.put(key + "!", 0)
    assert list(opened.view.range("a", "b")) == [("a", 10), ("a!", 0), ("b", 20)]


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_returned_values_are_not_shared(commits: int) -> None:
    opened = Opened()
    value = {"seen": [1]}
    opened.view.put("a", value)
    value["seen"].append(2)
    for _ in range(commits):
        opened.commit()
    pair = opened.view.get_with_timestamp("a")
    assert pair is not None
    for handed in (opened.view.get("a"), pair.value, *(value for _, value in opened.view.all())):
        handed["seen"].append(3)
    assert opened.view.get("a") == {"seen": [1]}


def test_falsy_values_are_values() -> None:
    opened = Opened(value=int)
    opened.view.put("a", 0)
    assert opened.view.get("a") == 0
    assert opened.view.get_with_timestamp("a") == (0, 100)
    assert opened.view.put_if_absent("a", 5) == 0
    assert opened.view.delete("a") == 0


def test_an_empty_key_is_a_key() -> None:
    opened = Opened(value=int)
    opened.view.put("", 1)
    assert (opened.view.get(""), list(opened.view.all()), list(opened.view.range("", ""))) == (1, [("", 1)], [("", 1)])


@pytest.mark.parametrize("method", ["get", "get_with_timestamp", "delete"])
def test_a_null_key_is_refused(method: str) -> None:
    opened = Opened()
    with pytest.raises(StoreError, match='store "s" was given a null key'):
        getattr(opened.view, method)(None)
    with pytest.raises(StoreError, match='store "s" was given a null key'):
        opened.view.put(None, {})


@pytest.mark.parametrize("call", ["get", "range", "put", "put_if_absent"])
def test_a_key_of_another_type_is_refused(call: str) -> None:
    opened = Opened()
    arguments = [7, {}] if call.startswith("put") else [7]
    with pytest.raises(SerdeError, match="expected str, got int 7"):
        getattr(opened.view, call)(*arguments)


def test_json_keys_are_compared_by_their_bytes() -> None:
    opened = Opened(key=dict, value=int)
    for place, key in enumerate([{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1.0, "b": 2}]):
        opened.view.put(key, place)
    assert list(opened.view.all()) == [({"a": 1, "b": 2}, 1), ({"a": 1.0, "b": 2}, 2)]


def test_numbers_are_ordered_by_their_bytes() -> None:
    opened = Opened(key=int, value=int)
    opened.view.put_all([(number, number) for number in (3, -1, 0, 256)])
    assert [key for key, _ in opened.view.all()] == [0, 3, 256, -1]


def test_rows_without_time() -> None:
    opened = Opened(kind=Kind.KEY_VALUE)
    opened.view.put("a", {"n": 1}, 5)
    opened.commit()
    opened.commit()
    assert opened.view.get("a") == {"n": 1}


@pytest.mark.parametrize(
    ("prefix", "past"), [(b"a", b"b"), (b"a\xff", b"b"), (b"\xfe\xff\xff", b"\xff"), (b"\xff", None), (b"", None)]
)
def test_the_first_key_after_a_prefix(prefix: bytes, past: bytes | None) -> None:
    assert after_prefix(prefix) == past
