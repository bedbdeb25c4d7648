"""Stores of a Driver: tests may write to them."""

from __future__ import annotations

from streamtopo import StreamsBuilder
from streamtopo.testing import Driver


def test_a_test_can_put_many_rows_each_into_the_store_of_its_task() -> None:
    builder = StreamsBuilder("app")
    builder.table("scores", key=str, value=int, name="scores")
    driver = Driver(builder.build(), partitions=3)
    driver.store("scores").put_all([(name, place) for place, name in enumerate("abcdef")])
    assert [driver.store("scores").get(name) for name in "abcdef"] == [*range(6)]
