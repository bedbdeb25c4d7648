"""Steps know their place in the user's program: errors and drawings name them by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from inspect import currentframe
from pathlib import Path
from typing import Any

import pytest

from streamtopo import KStream, Processor, StreamsBuilder, Topology, Windows, key_value_store
from streamtopo.aggregators import mean
from streamtopo.errors import StepError
from streamtopo.testing import Driver
from streamtopo.topology.code_places import CodePlace


def to_cents(value: str) -> int:
    return int(value) * 100


async def look_up(value: str) -> str:
    return value


@lru_cache
def remembered(value: str) -> str:
    return value


class Rates:
    def convert(self, value: str) -> str:
        return value

    def __call__(self, value: str) -> str:
        return value


class Passing(Processor):
    def process(self, record: Any) -> None:
        self.context.forward(record)


class Quiet(Passing):
    pass


class Putting(Processor):
    def process(self, record: Any) -> None:
        self.context.get_state_store("kept").put(b"k", record.value)


@dataclass
class Amount:
    cents: str


def line_of(function: Callable[..., object]) -> int:
    return function.__code__.co_firstlineno


def here() -> int:
    """The line of the caller."""
    frame = currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def stream() -> KStream:
    return StreamsBuilder("orders").stream("in", key=str, value=str)


def place(made: KStream) -> CodePlace:
    found = made.graph.topology.nodes[made.node].code_place
    assert found is not None
    assert found.file == __file__
    return found


@pytest.mark.parametrize(
    ("function", "name", "line"),
    [
        (to_cents, "to_cents", line_of(to_cents)),
        (lambda value: value, "lambda", here()),
        (partial(lambda one, value: value, 1), "lambda", here()),
        (partial(partial(to_cents)), "to_cents", line_of(to_cents)),
        (remembered, "remembered", line_of(remembered.__wrapped__)),
        (Rates().convert, "Rates.convert", line_of(Rates.convert)),
        (Rates(), "Rates", line_of(Rates.__call__)),
    ],
)
def test_the_place_of_a_function(function: Any, name: str, line: int) -> None:
    assert place(stream().map_values(function)) == (name, __file__, line)


def test_the_place_of_a_function_in_a_function_and_of_a_coroutine() -> None:
    def inner(value: str) -> str:
        return value

    assert str(place(stream().map_values(inner))) == f"inner, test_code_places.py:{line_of(inner)}"
    assert place(stream().map_values_async(look_up)) == ("look_up", __file__, line_of(look_up))


def test_the_place_of_a_processor() -> None:
    assert place(stream().process(Passing)) == ("Passing", __file__, line_of(Passing.process))
    assert place(stream().process(Quiet)) == ("Quiet", __file__, here())


def test_without_a_function_of_the_users_it_is_the_line_with_the_method() -> None:
    assert place(stream().map_values(str.upper)) == ("str.upper", __file__, here())
    assert place(stream().map_values(Amount)) == ("Amount", __file__, here())
    assert place(stream()) == ("", __file__, line_of(stream) + 1)
    counts = (
        stream()
        .group_by_key()
        .count()  #
        .to_stream()
    )
    first, second = list(counts.graph.topology.nodes.values())[1:]
    assert [str(node.code_place) for node in (first, second)] == [
        f"test_code_places.py:{here() - 5}",
        f"test_code_places.py:{here() - 5}",
    ]
    means = stream().group_by_key().windowed_by(Windows.tumbling("1s")).aggregate(mean())
    assert {str(node.code_place) for node in list(means.graph.topology.nodes.values())[1:]} == {
        f"test_code_places.py:{here() - 2}"
    }


def test_the_place_of_nodes_that_are_added_by_hand() -> None:
    topology = Topology().add_source("in", "a").add_processor("pass", Passing, "in").add_sink("out", "b", "pass")
    assert [str(node.code_place) for node in topology.nodes.values()] == [
        f"test_code_places.py:{here() - 2}",
        f"Passing, test_code_places.py:{line_of(Passing.process)}",
        f"test_code_places.py:{here() - 4}",
    ]


def test_an_init_file_is_named_with_its_folder() -> None:
    assert str(CodePlace("f", str(Path("/apps/orders/__init__.py")), 3)) == "f, orders/__init__.py:3"
    assert str(CodePlace("f", "<stdin>", 1)) == "f, <stdin>:1"


# -- errors


def failure(describe: Callable[[KStream], object], value: bytes = b"x") -> str:
    made = stream()
    describe(made)
    with pytest.raises(StepError) as found:
        Driver(made.graph.topology).send_bytes("in", value, key=b"c-17")
    assert found.value.failed.code_place in str(found.value)
    return str(found.value)


def test_errors_name_the_function_and_its_line_and_the_key() -> None:
    assert failure(lambda orders: orders.map_values(to_cents)).startswith(
        f'step "KSTREAM-MAPVALUES-0000000001" (to_cents, test_code_places.py:{line_of(to_cents)}) failed on '
        "in/0 offset 0: ValueError(\"invalid literal for int() with base 10: 'x'\"); the record's key is 'c-17'; "
    )


def test_errors_of_sources_sinks_and_stores_name_topics_and_lines_too() -> None:
    def written(orders: KStream) -> None:
        orders.map_values(len).to("out")

    def kept(orders: KStream) -> None:
        orders.process(Putting, stores=[key_value_store("kept", value=int)])

    file = "test_code_places.py"
    assert f'SOURCE-0000000000" (reads in, {file}:{line_of(stream) + 1}) failed' in failure(lambda _: None, b"\xff")
    assert f'SINK-0000000002" (writes out, {file}:{line_of(written) + 1}) failed' in failure(written)
    assert f'"store kept" (Putting, {file}:{line_of(Putting.process)}) failed' in failure(kept)


def test_a_value_of_a_wrong_type_names_the_step_that_made_it() -> None:
    def joined(orders: KStream) -> None:
        minutes = Windows.tumbling("1m")
        lengths = orders.join(orders, lambda left, right: len(left), within="1s")
        lengths.filter(lambda key, value: value > 0).group_by_key().windowed_by(minutes).reduce(max)

    said = f"it is made by KSTREAM-MERGE-0000000005 (lambda, test_code_places.py:{line_of(joined) + 2}); the record's"
    assert said in failure(joined)
    five: Any = lambda key, value, row: 5  # noqa: E731
    wrong = failure(lambda orders: orders.group_by_key().aggregate(list, five, value=list))
    assert "aggregate" in wrong.lower()
    assert "it is made by" not in wrong


def test_a_key_of_a_wrong_type_names_the_step_that_made_it() -> None:
    counted = failure(lambda orders: orders.group_by(lambda key, value: 5).count())
    assert "it is made by KSTREAM-KEY-SELECT-0000000001 (lambda, test_code_places.py:" in counted


def test_bytes_used_as_something_else_name_the_source_without_a_type() -> None:
    builder = StreamsBuilder("orders")
    orders: Any = builder.stream("in")
    orders.map_values(lambda order: order["amount"]).to("out")
    driver = Driver(builder)
    with pytest.raises(
        StepError, match=r"SOURCE-0000000000 \(reads in, .*\) gives bytes, as it declares no type; give"
    ):
        driver.send("in", b"{}")
