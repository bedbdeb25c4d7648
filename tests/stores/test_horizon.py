"""Rows of windows newer than any stored one are not looked up; all others are found, whatever was forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo.errors import SerdeError
from streamtopo.serdes import serde_of
from streamtopo.serdes.windowed import session_windowed, time_windowed_in_store
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.rows.state import State
from streamtopo.windows import Windowed

SIZE, SEGMENT = 10, 60
KINDS = [(kind, key) for kind in (Kind.WINDOW, Kind.TIMESTAMPED_WINDOW, Kind.SESSION) for key in (str, dict)]


class Watched(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.lookups = 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.lookups += len(keys)
        return super().get_many(keys)


class Rows:
    def __init__(self, kind: Kind = Kind.TIMESTAMPED_WINDOW, key: Any = str) -> None:
        inner = serde_of(key, key=True)
        serde = session_windowed(inner) if kind is Kind.SESSION else time_windowed_in_store(inner, SIZE)
        self.spec = StoreSpec("s", serde, serde_of(int), kind=kind, segment=SEGMENT, retention=2 * SEGMENT)
        self.store = Watched()
        self.restart()

    def restart(self) -> None:
        self.state = State(self.spec, self.store)

    def row(self, window: Windowed) -> Any:
        (index,) = self.state.index([window])
        row = self.state.row(index)
        return None if row is None else row[0]

    def put(self, window: Windowed, value: int) -> None:
        (index,) = self.state.index([window])
        self.state.row(index)
        self.state.put(index, (value, 0), 0)

    def commit(self) -> None:
        self.store.write(self.state.take_changes()[0], {})
        self.state.committed()

    def looks_up(self, window: Windowed) -> bool:
        before = self.store.lookups
        self.row(window)
        return self.store.lookups > before


def window(start: int, key: Any = "a") -> Windowed:
    return Windowed(key, start, start + SIZE)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 300), st.integers(0, 2)),
        st.tuples(st.sampled_from(["commit", "forget", "roll back", "begin again"])),
    ),
    max_size=40,
)


@pytest.mark.parametrize(("kind", "key"), KINDS)
@given(STEPS)
def test_every_row_is_found_whatever_was_forgotten(kind: Kind, key: Any, steps: list[Any]) -> None:
    rows = Rows(kind, key)
    now: dict[tuple[int, int], int] = {}
    durable = dict(now)

    def of(start: int, number: int) -> Windowed:
        return window(start, {"number": number} if key is dict else str(number))

    for value, (step, *which) in enumerate(steps):
        if step == "put":
            assert rows.row(of(*which)) == now.get((which[0], which[1]))
            rows.put(of(*which), value)
            now[which[0], which[1]] = value
        elif step in ("commit", "forget"):
            rows.commit()
            durable = dict(now)
            if step == "forget":
                rows.state.forget_older()
        else:
            rows.state.rollback() if step == "roll back" else rows.restart()
            now = dict(durable)
    for which, value in now.items():
        assert rows.row(of(*which)) == value


@pytest.mark.parametrize(("kind", "key"), KINDS[::2])
def test_windows_newer_than_any_stored_one_are_not_looked_up(kind: Kind, key: Any) -> None:
    rows = Rows(kind, key)
    assert not rows.looks_up(window(0))
    rows.put(window(0), 1)
    rows.put(window(70), 2)
    rows.commit()
    rows.state.forget_older()
    assert not rows.looks_up(window(0, "b"))
    rows.commit()
    rows.state.forget_older()
    assert rows.looks_up(window(0, "c"))
    assert rows.looks_up(window(0))
    assert rows.row(window(70)) == 2
    assert not rows.looks_up(window(81))
    assert not rows.looks_up(window(81, "b"))


def test_after_a_restart_the_last_segment_is_searched() -> None:
    rows = Rows()
    rows.put(window(70), 1)
    rows.commit()
    rows.restart()
    assert rows.looks_up(window(SEGMENT * 2 - 1))
    assert not rows.looks_up(window(SEGMENT * 2))
    assert rows.row(window(70)) == 1


def test_an_unreadable_row_is_not_taken_for_absent() -> None:
    rows = Rows()
    rows.put(window(0), 1)
    rows.put(window(0, "b"), 2)
    rows.commit()
    for key, data in rows.store.scan(b"", b"\xff"):
        rows.store.write({key: data[:-1] if data.endswith(b"\1") else data}, {})
    rows.restart()
    for _ in range(2):
        with pytest.raises(SerdeError):
            rows.state.load([window(0), window(0, "b")])
    assert rows.row(window(0, "b")) == 2
