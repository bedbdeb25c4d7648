"""What tells stores with generated names apart: alike in all versions of Python, whatever the number in the name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from streamtopo import StreamsBuilder, Topology
from streamtopo.engine.lineage import Lineage, _functions, is_numbered


def starting(length: int) -> Callable[[str, str], str]:
    return lambda key, value: value[:length]


def plain(key: str, value: list[str]) -> Any:
    return [item.strip("x") for item in value if item != "y"][1]


class Upper:
    def __call__(self, key: str, value: str) -> str:
        return value.upper()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (plain, ["plain", "'x'", "'y'", "1", "item", "key", "strip", "value"]),
        (starting(300), ["starting.<locals>.<lambda>", "key", "value", "300"]),
        (partial(plain, "k"), ["partial", "plain", "'x'", "'y'", "1", "item", "key", "strip", "value", "'k'"]),
        (Upper(), ["Upper"]),
        (str.upper, ["str.upper"]),
    ],
)
def test_what_is_said_of_a_function(function: Any, words: list[str]) -> None:
    assert list(_functions(function, {})) == words


class Lazy:
    """Stands for an object that is not there yet, as those of web frameworks do."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("outside of a request")


def using(thing: Any) -> Callable[[str, str], str]:
    return lambda key, value: str(thing)


def test_functions_may_have_anything_around_them() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    table = {str(number): [str(number)] for number in range(100_000)}
    said = {
        name: [*_functions(using(thing), {})] for name, thing in [("lazy", Lazy()), ("deep", deep), ("table", table)]
    }
    assert {name: words[0] for name, words in said.items()} == dict.fromkeys(said, "using.<locals>.<lambda>")
    assert len(said["table"]) < 2000


def counting(*groups: Callable[[str, str], str], more: bool = False) -> Topology:
    builder = StreamsBuilder("app")
    stream = builder.stream("in", *(["more"] if more else []), key=str, value=str)
    for group in groups:
        stream.group_by(group, key=str).count().to_stream().to("out")
    return builder.build()


def test_it_is_of_what_leads_to_a_store_through_repartition_topics_whatever_its_number() -> None:
    one, two, swapped = (
        [Lineage(topology).of_store(store) for store in topology.stores]
        for topology in (counting(starting(1)), counting(starting(1), starting(2)), counting(starting(2), starting(1)))
    )
    assert one == two[:1] == swapped[1:]
    assert two == swapped[::-1]
    assert {tuple(lineage["from"]) for lineage in two} == {("in",)}
    more = counting(starting(1), more=True)
    assert [Lineage(more).of_topic(topic)["from"] for topic in more.repartitions] == [["in", "more"]]


def test_generated_names() -> None:
    names = [
        "KSTREAM-AGGREGATE-STATE-STORE-0000000003",
        "KSTREAM-REDUCE-0000000003-repartition",
        "in-STATE-STORE-0000000000",
    ]
    assert [is_numbered(name) for name in [*names, "counts", "orders-2024", "v-00000000031"]] == [True] * 3 + [
        False
    ] * 3
