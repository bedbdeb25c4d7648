"""Tables derived from a table, row by row."""

from __future__ import annotations

import pytest

from streamtopo import StreamsBuilder
from streamtopo.records import OUTDATED, Chunk
from streamtopo.testing import Driver, DriverRecord
from tests.in_place import added
from tests.tables.scores import run, scores


@pytest.mark.parametrize(("rows", "passing"), [("rows", None), ("rows", "passing"), (None, None), (None, "passing")])
def test_a_filter_of_stored_rows_deletes_only_rows_that_had_passed(rows: str | None, passing: str | None) -> None:
    updates = [("a", 1), ("a", 5), ("a", 2), ("a", 3), ("b", None)]
    builder = StreamsBuilder("app")
    scores(builder, name=rows).filter(lambda _, score: score > 3, name=passing).to_stream().to("out")
    every = [("a", None), ("a", 5), ("a", None), ("a", None), ("b", None)]
    assert run(builder, *updates) == (every if rows is None else [("a", 5), ("a", None)])


def test_functions_are_not_called_without_a_row_but_transformers_are() -> None:
    builder = StreamsBuilder("app")
    table = scores(builder).map_values(lambda score: score + 1).filter_not(lambda _, score: score > 8)
    table.transform_values(lambda key, score: f"{key}{score}", value=str).to_stream().to("out")
    assert run(builder, ("a", 1), ("a", None), ("a", 8)) == [("a", "a2"), ("a", "aNone"), ("a", "aNone")]


@pytest.mark.parametrize("chunk", [1, 100])
def test_a_function_that_changes_values_in_place_does_not_change_the_table(chunk: int) -> None:
    builder = StreamsBuilder("app")
    lists = builder.table("scores", key=str, value=list, name="lists")
    longer = lists.map_values(lambda row: added(row, ["mapped"]), name="longer")
    longer.group_by(lambda key, row: (added(row, ["grouped"]) and key, row)).reduce(
        lambda row, value: added(row, ["added"]), lambda row, value: added(row, ["removed"]), name="reduced"
    )
    driver = Driver(builder.build(), chunk=chunk)
    driver.send_all(DriverRecord("scores", "k", [value], value) for value in (1, 2))
    assert [driver.store(name).get("k") for name in ("lists", "longer", "reduced")] == [
        [2],
        [2, "mapped"],
        [1, "mapped", "grouped", "removed", "added"],
    ]


def test_out_of_order_updates_stay_marked_and_are_not_joined() -> None:
    from streamtopo.operators.joins.foreign_key_join import in_order
    from streamtopo.operators.tables.derived import derived, mapping

    updates = Chunk(["a", "b"], [1, 2], [0, 0], old=[OUTDATED, 1])
    double = mapping(lambda value: value * 2, with_key=False)
    for sends_old, old in ((True, [OUTDATED, 2]), (False, [OUTDATED, None])):
        step = derived(double, sends_old=sends_old)
        assert step(updates) == Chunk(["a", "b"], [2, 4], [0, 0], old=old)
    dropped: list[tuple[str, int]] = []
    assert in_order(updates, lambda *one: dropped.append(one)).keys == ["b"]
    assert dropped == [("out of order", 1)]
