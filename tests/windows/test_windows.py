"""Impossible windows are refused when they are described."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import (
    Windows,
    until_time_limit,
    until_window_closes,
)
from streamtopo.errors import ConfigError, TopologyError
from tests.windows.counting import counting


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Windows.tumbling(0), "the size of a window is 0; give 1 ms or more"),
        (lambda: Windows.tumbling("10s", grace=-1), "the grace of a window is -1; give 0 ms or more"),
        (lambda: Windows.hopping("1s", every="2s"), "windows of 1000 ms every 2000 ms would leave gaps"),
        (lambda: Windows.session("0s"), "the gap of a window is '0s'"),
        (lambda: Windows.unlimited(-5), "the start of a window is -5"),
        (lambda: Windows(5), "choose a kind of windows: Windows.tumbling, hopping"),  # type: ignore[abstract]
        (lambda: counting("10s"), "windowed_by was given '10s'"),
        (lambda: counting(Windows.tumbling(5), emit="late"), "emit='late' is not known"),
        (lambda: counting(Windows.unlimited(), emit="on_close"), "unlimited windows never close"),
        (lambda: until_time_limit(-1), "is negative"),
        (lambda: until_time_limit(1, when_full="explode"), "when_full='explode' is not known"),
        (lambda: until_window_closes(max_records=-1), "max_records is -1"),
    ],
)
def test_mistakes_are_reported_while_windows_are_described(make: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message.replace("(", r"\(").replace(")", r"\)")):
        make()


def test_a_size_that_is_not_a_duration_is_refused() -> None:
    with pytest.raises(ConfigError, match="'ten seconds' is not a duration"):
        Windows.tumbling("ten seconds")
