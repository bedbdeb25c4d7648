"""Transformers of a table's values: their stores, their scheduled calls, and their limits."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import ProcessorContext, Record, StreamsBuilder, ValueTransformer, key_value_store
from streamtopo.errors import StepError, TopologyError
from streamtopo.testing import Driver, DriverRecord
from tests.tables.scores import run, scores


class Difference(ValueTransformer):
    """The difference to the previous score, of any key."""

    def init(self, context: ProcessorContext) -> None:
        self.last = context.get_state_store("last")
        context.schedule(100, "stream_time", lambda time: self.last.delete("score"))

    def transform(self, key: str, value: int | None) -> int | None:
        before = self.last.get("score") or 0
        self.last.put("score", value)
        return None if value is None else value - before


@pytest.mark.parametrize("name", ["differences", None])
@pytest.mark.parametrize("chunk", [1, 100])
def test_a_transformer_with_a_store_and_scheduled_calls(name: str | None, chunk: int) -> None:
    builder = StreamsBuilder("app")
    table = scores(builder).transform_values(
        Difference, stores=[key_value_store("last", key=str, value=int)], name=name
    )
    table.to_stream().to("out")
    if name is not None:
        table.left_join(scores(builder), lambda difference, score: difference + (score or 0)).to_stream().to("sums")
    driver = Driver(builder.build(), chunk=chunk)
    driver.send_all(DriverRecord("scores", "ab"[time % 2], time, time) for time in (10, 13, 21))
    driver.send("scores", 5, key="a", timestamp=105)
    driver.send("scores", 7, key="a", timestamp=110)
    assert [value for _, value in driver.read("out")] == [10, 13, 8, -16, 7]
    if name is not None:
        assert dict(driver.store(name).all()) == {"a": 7, "b": 8}
        assert driver.read("sums")[-1] == ("a", 14)


def test_old_values_are_transformed_if_they_are_needed() -> None:
    builder = StreamsBuilder("app")
    table = scores(builder).transform_values(lambda key, score: -1 if score is None else score * 10)
    table.group_by(lambda _, score: ("all", score)).reduce(lambda a, b: a + b, lambda a, b: a - b).to_stream().to("out")
    assert [value for _, value in run(builder, ("a", 1), ("b", 2), ("a", 3), ("b", None))] == [10, 31, 51, 30]


def test_transformers_that_forward_or_cannot_be_called_twice_are_refused() -> None:
    class Forwarding(ValueTransformer):
        def transform(self, key: Any, value: Any) -> Any:
            self.context.forward(Record(key, value, 0))

    builder = StreamsBuilder("app")
    table = scores(builder).transform_values(Forwarding)
    with pytest.raises(TopologyError, match=r"keeps no rows.*name="):
        table.join(scores(builder), lambda one, other: one)
    with pytest.raises(TopologyError, match="a function cannot use them"):
        scores(builder).transform_values(lambda key, value: value, stores=[key_value_store("some")])  # type: ignore[arg-type, misc]
    table.to_stream().to("out")
    with pytest.raises(StepError, match="the transformer forwarded a record"):
        run(builder, ("a", 1))
