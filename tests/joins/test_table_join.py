"""Joins of two tables in users' programs, one special case per test."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import StreamsBuilder
from streamtopo.errors import TopologyError
from streamtopo.testing import Driver
from tests.tables.scores import run, scores


def test_a_table_joined_with_itself_and_with_a_table_derived_from_it() -> None:
    builder = StreamsBuilder("app")
    table = scores(builder)
    doubled = table.map_values(lambda score: score * 2)
    table.join(doubled, lambda one, two: [one, two], value=list).to_stream().to("out")
    assert run(builder, ("a", 1), ("a", 2), ("a", None)) == [("a", [1, 2])] * 2 + [("a", [2, 4])] * 2


def test_old_and_new_joined_values_share_nothing() -> None:
    def marked(score: int, row: list[str]) -> list[str]:
        row.append(str(score))
        return row

    builder = StreamsBuilder("app")
    lists = builder.table("lists", key=str, value=list)
    rows = scores(builder).join(lists, marked, value=list)
    rows.group_by(lambda key, row: (key, row)).reduce(lambda a, b: b, lambda a, b: ["not", *b]).to_stream().to("out")
    driver = Driver(builder.build())
    driver.send("lists", ["row"], key="a")
    for score in (1, 2):
        driver.send("scores", score, key="a")
    assert driver.read("out") == [("a", ["row", "1"]), ("a", ["row", "2"])]


def test_unsuitable_tables_are_refused() -> None:
    builder, other = StreamsBuilder("app"), StreamsBuilder("app")
    numbers = builder.table("numbers", key=int, value=int)
    with pytest.raises(TopologyError, match=r"keys of different types: str and int.*foreign_key="):
        scores(builder).join(numbers, max)
    with pytest.raises(TopologyError, match="a table can only be joined with a table"):
        scores(builder).left_join(builder.stream("words", key=str), max)  # type: ignore[call-overload]
    options: list[dict[str, Any]] = [{}, {"foreign_key": lambda score: score}]
    for option in options:
        with pytest.raises(TopologyError, match="different builders"):
            scores(builder).left_join(scores(other), max, **option)
