"""Errors that cannot be written, or do not end: the record is left out all the same."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import Serde, StreamsBuilder
from streamtopo.errors import StepError
from streamtopo.testing import Driver


class Unwritable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("there is no text")

    __repr__ = __str__


def in_a_group() -> Exception:
    return ExceptionGroup("several", [ValueError("one"), Unwritable()])


def each_other() -> Exception:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def long_chain() -> Exception:
    error = ValueError("the first")
    for _ in range(3000):
        following = ValueError("the next")
        following.__context__, error = error, following
    return error


@pytest.mark.parametrize("on_error", ["skip", "dead_letter", "retry:1:0ms:dead_letter"])
@pytest.mark.parametrize("make", [Unwritable, in_a_group, each_other, long_chain])
@pytest.mark.parametrize("stage", ["decode", "step"])
def test_any_error_can_be_left_out(stage: str, make: Any, on_error: str) -> None:
    def check(value: Any) -> Any:
        if value in (b"0", "0"):
            raise make()
        return value

    serde = Serde("checked", str.encode, lambda data: str(check(data), "utf-8")) if stage == "decode" else str
    builder = StreamsBuilder("checks")
    builder.stream("in", value=serde).map_values(check).to("out", value=str)
    driver = Driver(builder, on_error=on_error)
    for value in ("1", "0", "2"):
        driver.send("in", value)
    driver.advance(wall_clock_ms=1000)
    assert driver.read("out") == [(None, "1"), (None, "2")]
    assert len(driver.dead_letters()) == (on_error != "skip")


def test_an_error_that_cannot_be_written_stops_the_worker_as_any_other() -> None:
    def fail(value: str) -> None:
        raise Unwritable

    builder = StreamsBuilder("checks")
    builder.stream("in", value=str).map_values(fail, value=str).to("out")
    with pytest.raises(StepError, match=r"in/0 offset 0: Unwritable, <repr\(\) failed>"):
        Driver(builder).send("in", "1")
