"""A table of scores, and the output of a topology that reads it."""

from __future__ import annotations

from typing import Any

from streamtopo import KTable, StreamsBuilder
from streamtopo.testing import Driver, DriverRecord


def scores(builder: StreamsBuilder, topic: str = "scores", name: str | None = None) -> KTable:
    return builder.table(topic, key=str, value=int, name=name)


def run(builder: StreamsBuilder, *sent: tuple[str, int | None], **options: Any) -> list[Any]:
    driver = Driver(builder.build(), **options)
    driver.send_all(DriverRecord("scores", key, value, time) for time, (key, value) in enumerate(sent))
    return driver.read("out")
