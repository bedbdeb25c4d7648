"""Calls that may never return are waited for up to a time limit."""

from __future__ import annotations

from threading import Event

import pytest

from streamtopo.logs.kafka.group.background_call import BackgroundCall


def test_a_call_that_returns_in_time_is_done() -> None:
    done: list[int] = []
    assert BackgroundCall(lambda: done.append(1)).returned(within=60)
    assert done == [1]


def test_a_call_that_does_not_return_is_abandoned() -> None:
    never = Event()
    assert not BackgroundCall(never.wait).returned(within=0.01)
    never.set()


def test_a_failure_is_raised_in_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        BackgroundCall(lambda: 1 / 0).returned(within=60)
