"""Counts of a stream in windows."""

from __future__ import annotations

from typing import Any

from streamtopo import (
    KGroupedStream,
    StreamsBuilder,
    Topology,
)
from streamtopo.testing import Driver


def grouped(builder: StreamsBuilder) -> KGroupedStream:
    return builder.stream("in", key=str, value=str).group_by_key()


def counting(windows: Any, **how: Any) -> Topology:
    builder = StreamsBuilder("windows")
    grouped(builder).windowed_by(windows, **how).count(name="counts").to_stream().to("out")
    return builder.build()


def send(driver: Driver, *records: tuple[str | None, int]) -> None:
    for key, time in records:
        driver.send("in", "v", key=key, timestamp=time)
