"""Calls that may never return are waited for only so long."""

from __future__ import annotations

from threading import Event

import pytest

from streamtopo.logs.kafka.bounded import Call


def test_what_returns_in_time_has_been_done() -> None:
    done: list[int] = []
    assert Call(lambda: done.append(1)).returned(within=60)
    assert done == [1]


def test_what_does_not_return_is_left_alone() -> None:
    never = Event()
    assert not Call(never.wait).returned(within=0.01)
    never.set()


def test_a_failure_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        Call(lambda: 1 / 0).returned(within=60)
