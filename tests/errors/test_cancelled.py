"""Errors that are no Exceptions: a CancelledError is the fault of a record; SystemExit ends the program."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamtopo import Processor, Record, Serde, StreamsBuilder
from streamtopo.testing import Driver, DriverRecord

ROOT = Path(__file__).parents[2]


def cancelled(value: Any) -> Any:
    """What a call of a client does that runs an event loop of its own, and whose task is cancelled."""
    if value in (0, b"0"):
        raise asyncio.CancelledError("the call was cancelled")
    return value


async def cancelled_later(value: int) -> int:
    await asyncio.sleep(0)
    return int(cancelled(value))


class Cancelled(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(cancelled(record.value)))


def in_a_step(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=int).map_values(cancelled).to("out", value=int)


def in_a_coroutine(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=int).map_values_async(cancelled_later, value=int).to("out")


def in_a_processor(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=int).process(Cancelled, key=str, value=int).to("out")


def in_an_adder(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.aggregate(lambda: 0, lambda _, value, row: cancelled(value), value=int).to_stream().to("out")


def in_a_partitioner(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=int)
    stream.to("out", partitioner=lambda topic, key, value, count: cancelled(value) and None)


def in_a_timestamp_function(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=int, timestamp=lambda _, value: cancelled(value) and 1)
    stream.to("out")


def in_an_encoder(builder: StreamsBuilder) -> None:
    serde = Serde("text", lambda value: b"%d" % cancelled(value), int)
    builder.stream("in", key=str, value=int).to("out", value=serde)


PLACES = [
    in_a_step,
    in_a_coroutine,
    in_a_processor,
    in_an_adder,
    in_a_partitioner,
    in_a_timestamp_function,
    in_an_encoder,
]


@pytest.mark.parametrize("place", PLACES)
def test_a_cancelled_call_is_the_fault_of_its_record(place: Any) -> None:
    builder = StreamsBuilder("cancelled")
    place(builder)
    driver = Driver(builder, on_error="dead_letter")
    driver.send_all([DriverRecord("in", "k", value, 0) for value in (1, 0, 2, 0, 3)])
    assert [value for _, value in driver.read("out")] == [1, 2, 3]
    letters = driver.dead_letters()
    assert [letter.value for letter in letters] == [bytes(8)] * 2


def test_so_is_one_while_it_is_decoded() -> None:
    serde = Serde("text", lambda value: b"%d" % value, lambda data: int(cancelled(data)))
    builder = StreamsBuilder("cancelled")
    builder.stream("in", value=serde).to("out")
    driver = Driver(builder, on_error="dead_letter")
    driver.send_all([DriverRecord("in", None, value, 0) for value in (1, 0, 2)])
    assert [value for _, value in driver.read("out")] == [1, 2]
    assert [letter.value for letter in driver.dead_letters()] == [b"0"]


STOPPING = """
import sys
from streamtopo import StreamsBuilder
from streamtopo.testing import Driver

def stop(value):
    sys.exit(7)

async def stop_later(value):
    sys.exit(7)

builder = StreamsBuilder("stopping")
stream = builder.stream("in", value=int)
(stream.map_values(stop) if sys.argv[1] == "plain" else stream.map_values_async(stop_later)).to("out")
Driver(builder, on_error="skip").send("in", 1)
"""


@pytest.mark.parametrize("how", ["plain", "async"])
def test_a_function_may_end_the_program(how: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", STOPPING, how], env=environment, timeout=60).returncode == 7
