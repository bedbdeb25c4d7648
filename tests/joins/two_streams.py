"""A topology of two streams, joined by a test."""

from __future__ import annotations

from collections.abc import Callable

from streamtopo import KStream, StreamsBuilder, Topology


def topology(describe: Callable[[StreamsBuilder, KStream, KStream], KStream]) -> Topology:
    builder = StreamsBuilder("joins")
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    describe(builder, left, right).to("out")
    return builder.build()


def plus(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"
