"""A topology that writes all that it reads to the same topic again would never end."""

from __future__ import annotations

import pytest

from streamtopo import StreamsBuilder
from streamtopo.errors import TopologyError
from streamtopo.testing import Driver


@pytest.mark.parametrize("through", [["in"], ["next", "in"]])
def test_a_loop_without_an_end_is_refused(through: list[str]) -> None:
    builder = StreamsBuilder("loop")
    before = "in"
    for topic in through:
        builder.stream(before, value=str).merge(builder.stream("more", value=str)).map_values(str.upper).to(topic)
        before = topic
    with pytest.raises(
        TopologyError, match=r"SOURCE-0000000000 \(reads in, .* again by .* \(writes in, .*without end; "
    ):
        builder.build()


def test_a_loop_with_an_end_is_allowed() -> None:
    builder = StreamsBuilder("countdown")
    builder.stream("in", value=int).filter(lambda _, value: value > 0).map_values(lambda value: value - 1).to("in")
    driver = Driver(builder)
    driver.send("in", 3)
    assert [value for _, value in driver.read("in")] == [3, 2, 1, 0]
