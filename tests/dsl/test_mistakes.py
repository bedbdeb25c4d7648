"""Mistakes of a first hour, and what their errors say to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamtopo import KStream, StreamsBuilder, StreamtopoError, host
from streamtopo.testing import Driver

MISTAKES: dict[str, Callable[[Any, Any], object]] = {
    r"<class 'str'> as a topic; give types by name: key=…, value=…$": lambda builder, _: builder.stream("in", str),
    r"name topics one by one, or give a pattern": lambda builder, _: builder.stream(["a", "b"]),
    r"is given \['a', 'b'\] as its topic; give one name, or a function": lambda _, stream: stream.to(["a", "b"]),
    r"there is no store \"count\"; .*; give yours a name, as in count\(name=\"counts\"\)": lambda builder, stream: (
        stream.group_by_key().count(),
        Driver(builder).store("count"),
    ),
}


@pytest.mark.parametrize("said", MISTAKES)
def test_what_to_write_instead(said: str) -> None:
    builder = StreamsBuilder("mistakes")
    stream: KStream[str, str] = builder.stream("orders", key=str, value=str)
    with pytest.raises(StreamtopoError, match=said):
        MISTAKES[said](builder, stream)


def test_a_text_as_timestamp_needs_a_function() -> None:
    builder = StreamsBuilder("mistakes")
    builder.stream("orders", value=dict, timestamp="at").to("out")
    with pytest.raises(StreamtopoError, match="for text, give a function: timestamp=lambda key, value: "):
        Driver(builder).send("orders", {"at": "2026-01-31T12:00:00Z"})


def test_a_host_must_be_opened_first() -> None:
    builder = StreamsBuilder("mistakes")
    builder.stream("orders").to("out")
    with pytest.raises(AttributeError, match=r'Host has no "query"; open it first, .*: with host\(topology\) as app'):
        host(builder, "memory:").query("counts")  # type: ignore[attr-defined]
