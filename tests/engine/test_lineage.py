"""The lineage distinguishes stores with generated names: the same in all versions of Python, whatever the number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from streamtopo import StreamsBuilder, Topology
from streamtopo.engine.compatibility.lineage import Lineage, _functions, is_numbered


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
def test_a_function_is_described_by_its_code(function: Any, words: list[str]) -> None:
    assert list(_functions(function, {})) == words


class Lazy:
    """Stands for an object that does not exist yet, as in web frameworks."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("outside of a request")


def using(thing: Any) -> Callable[[str, str], str]:
    return lambda key, value: str(thing)


def test_functions_may_refer_to_any_object() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    table = {str(number): [str(number)] for number in range(100_000)}
    texts = {
        name: [*_functions(using(thing), {})] for name, thing in [("lazy", Lazy()), ("deep", deep), ("table", table)]
    }
    assert {name: words[0] for name, words in texts.items()} == dict.fromkeys(texts, "using.<locals>.<lambda>")
    assert len(texts["table"]) < 2000


def counting(*groups: Callable[[str, str], str], more: bool = False) -> Topology:
    builder = StreamsBuilder("app")
    stream = builder.stream("in", *(["more"] if more else []), key=str, value=str)
    for group in groups:
        stream.group_by(group, key=str).count().to_stream().to("out")
    return builder.build()


def test_the_lineage_includes_steps_before_repartition_topics() -> None:
    one, two, swapped = (
        [Lineage(topology).of_store(store) for store in topology.stores]
        for topology in (counting(starting(1)), counting(starting(1), starting(2)), counting(starting(2), starting(1)))
    )
    assert one == two[:1] == swapped[1:]
    assert two == swapped[::-1]
    assert {tuple(lineage["from"]) for lineage in two} == {("in",)}
    more = counting(starting(1), more=True)
    assert [Lineage(more).of_topic(topic)["from"] for topic in more.repartitions] == [["in", "more"]]


def test_generated_names_are_recognized() -> None:
    names = [
        "KSTREAM-AGGREGATE-STATE-STORE-0000000003",
        "KSTREAM-REDUCE-0000000003-repartition",
        "in-STATE-STORE-0000000000",
    ]
    assert [is_numbered(name) for name in [*names, "counts", "orders-2024", "v-00000000031"]] == [True] * 3 + [
        False
    ] * 3
