"""What fails besides records and their steps: topics that are gone, policies, calls by the clock, coroutines."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import accumulate
from random import Random
from typing import Any

import pytest

from streamtopo import FailedRecord, Processor, ProcessorContext, Record, StreamsBuilder, retry
from streamtopo.errors import StepError, StreamtopoError
from streamtopo.logs import Topic
from streamtopo.testing import Cluster, Driver, DriverRecord, seeds


def inverse(value: int) -> int:
    return 100 // value


def inverses() -> StreamsBuilder:
    builder = StreamsBuilder("inverses")
    builder.stream("in", key=str, value=int).map_values(inverse).to("out")
    return builder


def values(driver: Driver) -> list[Any]:
    return [value for _, value in driver.read("out")]


@pytest.mark.parametrize("gone", ["out", "dlq.inverses"])
def test_a_topic_that_was_deleted_is_not_the_fault_of_a_record(gone: str) -> None:
    driver = Driver(inverses(), on_error="dead_letter")
    driver.send("in", 1)
    assert values(driver) == [100]
    driver.log.delete(gone)
    with pytest.raises(StreamtopoError, match=gone):
        driver.send_all([DriverRecord("in", None, value, 0) for value in (0, 2)])
    driver.crash()
    driver.log.create(Topic(gone, 1))
    again = Driver(inverses(), log=driver.log, on_error="dead_letter")
    assert values(again)[-1:] == [50]
    assert [letter.value for letter in again.dead_letters()] == [bytes(8)]


def test_after_a_policy_that_fails_nothing_is_lost() -> None:
    def decide(failed: FailedRecord) -> str:
        raise KeyError("there is no such rule")

    driver = Driver(inverses(), on_error=decide)
    with pytest.raises(StepError, match=r"on_error function .*decide was asked what to do, and failed: KeyError"):
        driver.send_all([DriverRecord("in", None, value, 0) for value in (1, 0, 2)])
    assert values(driver) == [100]
    driver.crash()
    again = Driver(inverses(), log=driver.log, on_error="dead_letter")
    assert values(again) == [100, 50]
    assert [letter.value for letter in again.dead_letters()] == [bytes(8)]


class Ticks(Processor):
    """Forwards the time of each call by the clock; some calls fail after that."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(10, "stream_time", self.tick)

    def process(self, record: Record) -> None:
        pass

    def tick(self, now: int) -> None:
        self.context.forward(Record("tick", now, now))
        if now % 3 == 0:
            raise ValueError(f"{now} is not a good time")


@pytest.mark.parametrize("seed", seeds(6))
def test_calls_by_stream_time_fail_once(seed: int) -> None:
    random = Random(seed)
    builder = StreamsBuilder("ticks")
    builder.stream("in", value=int).process(Ticks, key=str, value=int).to("out")
    times = list(accumulate(random.choices(range(15), k=60)))
    with Cluster(builder, workers=2, partitions=1, seed=seed, on_error="dead_letter") as cluster:
        for at, time in zip(sorted(random.choices(range(3_000), k=len(times))), times, strict=True):
            cluster.send("in", 1, timestamp=time, at=at)
        cluster.run()
        called, due = [], 0
        for time in times:
            if time >= due:
                called.append(time)
                due = time // 10 * 10 + 10
        assert [time for _, time in cluster.read("out")] == [time for time in called if time % 3]
        calls = [dict(letter.headers)["__streamtopo.errors.call"] for letter in cluster.dead_letters()]
        assert calls == [b"the punctuation at stream time %d" % time for time in called if time % 3 == 0]


@pytest.mark.parametrize("seed", seeds(6))
def test_coroutines_fail_alone(seed: int) -> None:
    random, calls = Random(seed), Counter[int]()

    async def look_up(value: int) -> int:
        await asyncio.sleep(0)
        calls[value] += 1
        if value % 10 == 0 or (value % 10 == 1 and calls[value] < 3):
            raise ConnectionError(value)
        return value

    builder = StreamsBuilder("calls")
    builder.stream("in", key=int, value=int).map_values_async(look_up, value=int).to("out")
    options: dict[str, Any] = {"on_error": retry(2, backoff="20ms", then="dead_letter")}
    with Cluster(builder, workers=2, partitions=2, seed=seed, **options) as cluster:
        for at, value in zip(sorted(random.choices(range(3_000), k=60)), range(60), strict=True):
            cluster.send("in", value, key=value % 7, at=at)
        cluster.run()
        found: dict[int, list[int]] = {}
        for key, value in cluster.read("out"):
            found.setdefault(key, []).append(value)
        assert found == {key: [value for value in range(key, 60, 7) if value % 10] for key in range(7)}
        letters = [int.from_bytes(letter.value) for letter in cluster.dead_letters()]
        assert sorted(letters) == list(range(0, 60, 10))
