"""A small number without a unit is questioned, at the line of the user's program."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from streamtopo import KStream, StreamsBuilder, Windows
from streamtopo.dsl.tables.suppress import until_time_limit
from streamtopo.errors import UnitWarning


def stream() -> KStream:
    return StreamsBuilder("units").stream("in", key=str, value=str)


def joined(**options: Any) -> KStream:
    left = stream()
    return left.join(left, lambda *both: both, **options)


QUESTIONED: dict[str, Callable[[], object]] = {
    "the size of a window, 60": lambda: Windows.tumbling(60),
    "the every of a window, 10": lambda: Windows.hopping("1m", every=10),
    "the grace of a window, 5": lambda: Windows.tumbling("1m", grace=5),
    "the gap of a window, 30": lambda: Windows.session(30),
    "the difference of a window, 999": lambda: Windows.sliding(999),
    "within= 10": lambda: joined(within=10),
    "before= 7": lambda: joined(before=7, after=0),
    "grace= 3": lambda: joined(within="1m", grace=3),
    "within= 20": lambda: stream().deduplicate(20),
    "until_time_limit: 5": lambda: until_time_limit(5),
}


@pytest.mark.parametrize("said", QUESTIONED)
def test_a_small_number_is_questioned(said: str) -> None:
    with pytest.warns(UnitWarning) as warned:
        QUESTIONED[said]()
    number = said.rpartition(" ")[2]
    text = f'{said} without a unit is {number} milliseconds; write "{number}s" for seconds, or "{number}ms" if'
    assert {str(one.message) for one in warned} == {f"{text} milliseconds are meant"}
    assert {one.filename for one in warned} == {__file__}


def test_other_durations_are_not_questioned() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnitWarning)
        for size in ("60ms", timedelta(milliseconds=60), 1000, 60_000):
            Windows.tumbling(size)
            Windows.session(size, grace=0)
            joined(within=size, grace=0)
        until_time_limit(0)
        joined(before=0, after="1m")
