"""Dead letters that their topic refuses as too large are cut: whatever is large in them, they stop no worker."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import StreamsBuilder
from streamtopo.errors import RecordTooLarge
from streamtopo.logs.memory import MemoryLog, MemoryMember
from streamtopo.records import Columns, Headers, TopicPartition, size_of
from streamtopo.testing import Driver, DriverRecord

LIMIT = 50_000
HUGE = b"x" * (3 * LIMIT)


class StrictMember(MemoryMember):
    def send(self, target: TopicPartition, columns: Columns) -> None:
        for key, value, headers in zip(columns.keys, columns.values, columns.headers or (), strict=False):
            if target.topic.startswith("dlq.") and size_of(key, value, headers) > LIMIT:
                raise RecordTooLarge(f"a record for {target} is too large", target.topic)
        super().send(target, columns)


class StrictLog(MemoryLog):
    """Takes small dead letters only."""

    def largest(self, topic: str) -> int:
        return LIMIT

    def _member(self, group: Any, topics: Any) -> MemoryMember:
        return StrictMember(self, group, topics)


def letter_of(
    key: str = "k", value: bytes | None = b"v", headers: Headers = (), message: str = "wrong"
) -> DriverRecord:
    def fail(value: bytes) -> bytes:
        raise ValueError(message)

    builder = StreamsBuilder("strict")
    builder.stream("in", key=str, value=bytes).filter(lambda key, value: bool(fail(value))).to("out")
    driver = Driver(builder, log=StrictLog(), on_error="dead_letter")
    driver.send("in", value, key=key, timestamp=7, headers=headers)
    (letter,) = driver.dead_letters()
    return letter


def told(letter: DriverRecord) -> dict[str, str]:
    return {name.rpartition(".")[2]: (text or b"").decode() for name, text in letter.headers}


def test_one_that_fits_is_whole() -> None:
    letter = letter_of(value=HUGE[: LIMIT // 2])
    assert letter.value == HUGE[: LIMIT // 2]
    assert "cut" not in told(letter)


def test_texts_about_the_failure_are_shortened_first() -> None:
    letter = letter_of(value=b"v" * 1000, message="é" * LIMIT)
    assert letter.value == b"v" * 1000
    assert 1000 < len(told(letter)["message"]) < LIMIT
    assert "cut" not in told(letter)


def test_then_the_end_of_the_value_is_left_out() -> None:
    letter = letter_of(value=HUGE, headers=(("mine", b"1"),))
    assert LIMIT * 0.8 < len(letter.value) < LIMIT
    assert letter.headers[0] == ("mine", b"1")
    assert told(letter)["cut"] == str(len(HUGE))


@pytest.mark.parametrize("value", [b"v" * 1000, None])
def test_then_the_headers_of_the_record(value: bytes | None) -> None:
    letter = letter_of(value=value, headers=(("mine", HUGE), ("other", b"1")))
    assert letter.value == value
    assert "mine" not in told(letter)
    assert told(letter)["cut"] == str(len(value or b""))


def test_and_at_last_the_end_of_the_key() -> None:
    letter = letter_of(key="k" * len(HUGE), headers=(("mine", HUGE),))
    assert LIMIT * 0.8 < len(letter.key) < LIMIT
    assert letter.value == b""
    assert told(letter)["offset"] == "0"
