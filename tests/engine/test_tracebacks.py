"""Tracebacks of failed steps have frames of the user's program, and of what that called, but none of the engine."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamtopo import Processor, StreamsBuilder, host
from streamtopo.engine.tracebacks import is_users, without_engine
from streamtopo.errors import StepError
from streamtopo.logs.memory import MemoryLog
from streamtopo.testing import Driver


def parse(value: str) -> Any:
    return json.loads(value)


async def parse_later(value: str) -> Any:
    return parse(value)


def parse_or_refuse(value: str) -> Any:
    try:
        return parse(value)
    except ValueError as error:
        raise LookupError("refused") from error


class Parsing(Processor):
    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(parse(record.value)))


def failure(function: Callable[[Any], object], **options: Any) -> StepError:
    builder = StreamsBuilder("parsing")
    function(builder.stream("in", key=str, value=str))
    driver = Driver(builder, **options)
    with pytest.raises(StepError) as found:
        driver.send("in", "{", key="k")
    return found.value


def frames(error: BaseException | None) -> list[str]:
    assert error is not None
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize(
    ("describe", "first"),
    [
        (lambda stream: stream.map_values(parse), []),
        (lambda stream: stream.map_values_async(parse_later), ["parse_later"]),
        (lambda stream: stream.process(Parsing), ["process"]),
        (lambda stream: stream.filter(lambda key, value: True).to_table().map_values(parse), []),
        (lambda stream: stream.group_by(lambda key, value: parse(value)).count(), ["<lambda>"]),
    ],
)
def test_only_the_users_frames_and_those_below(describe: Callable[[Any], object], first: list[str]) -> None:
    error = failure(describe)
    assert frames(error.__cause__) == [*first, "parse", "loads", "decode", "raw_decode"]
    assert "streamtopo/engine" not in "".join(traceback.format_exception(error.__cause__))


def test_the_users_own_causes_are_kept() -> None:
    cause = failure(lambda stream: stream.map_values(parse_or_refuse)).__cause__
    assert cause is not None
    assert (repr(cause), frames(cause)) == ("LookupError('refused')", ["parse_or_refuse"])
    assert frames(cause.__cause__)[:2] == ["parse_or_refuse", "parse"]
    assert cause.__cause__ is cause.__context__
    assert cause.__cause__ is not None
    assert cause.__cause__.__context__ is None


def test_a_function_in_c_leaves_no_frames() -> None:
    error = failure(lambda stream: stream.map_values(int))
    assert isinstance(error.__cause__, ValueError)
    assert frames(error.__cause__) == []
    assert not is_users(error.__cause__)


def test_a_cause_that_was_never_raised_is_kept() -> None:
    def refuse(value: str) -> None:
        raise LookupError("refused") from ValueError("a reason")

    cause = failure(lambda stream: stream.map_values(refuse)).__cause__
    assert cause is not None
    assert repr(cause.__cause__) == "ValueError('a reason')"


def test_an_error_that_refers_to_itself() -> None:
    def knot(value: str) -> None:
        one, other = ValueError("one"), ValueError("other")
        one.__cause__, other.__cause__ = other, one
        raise one

    assert frames(failure(lambda stream: stream.map_values(knot)).__cause__) == ["knot"]


def test_a_group_of_errors() -> None:
    def both(value: str) -> None:
        try:
            parse(value)
        except ValueError as error:
            raise ExceptionGroup("both", [error]) from None

    cause = failure(lambda stream: stream.map_values(both)).__cause__
    assert isinstance(cause, ExceptionGroup)
    assert (frames(cause), frames(cause.exceptions[0])[:2]) == (["both"], ["both", "parse"])


def test_all_frames_at_log_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "streamtopo")
    error = failure(lambda stream: stream.map_values(parse))
    assert "attempt" in frames(error.__cause__)
    assert "attempt" in frames(without_engine(error).__cause__)


async def test_the_log_of_a_hosted_app(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    builder = StreamsBuilder("parsing")
    builder.stream("in", key=str, value=str).map_values(parse)
    async with host(builder.build(), log=MemoryLog(), state_dir=tmp_path, create_topics=1) as app:
        await app.produce("in", "{", key="k")
        with pytest.raises(StepError, match="the record's key is 'k'"):
            await app.ended()
    (logged,) = (record.exc_info for record in caplog.records if record.levelno == logging.ERROR)
    assert logged is not None
    assert isinstance(logged[1], StepError)
    assert frames(logged[1].__cause__)[0] == "parse"
    assert "streamtopo/engine/" not in "".join(traceback.format_exception(logged[1]))


def test_bytes_that_are_no_json_have_one_cause() -> None:
    builder = StreamsBuilder("orders")
    builder.stream("in", value=dict).to("out")
    driver = Driver(builder, on_error="dead_letter")
    driver.send_bytes("in", b"no json")
    (letter,) = driver.dead_letters()
    headers = dict(letter.headers)
    text = (headers["__streams.errors.stacktrace"] or b"").decode()
    assert "During handling of the above exception" not in text
    assert text.count("DecodeError") + text.count("JSONDecodeError") <= 2
