"""Tables that are regrouped and aggregated, with and without the record cache."""

from __future__ import annotations

import pytest

from streamtopo import StreamsBuilder
from streamtopo.errors import StepError
from streamtopo.testing import Driver, DriverRecord
from tests.tables.scores import run, scores


def test_a_row_that_changes_its_group_is_first_removed_from_the_old_one() -> None:
    builder = StreamsBuilder("app")
    odd = scores(builder).group_by(lambda key, score: None if score < 0 else ("odd" if score % 2 else "even", score))
    odd.count(name="counts").to_stream().to("out")
    odd.aggregate(
        lambda: [], lambda _, score, row: [*row, score], lambda _, score, row: row[1:], value=list, name="all"
    )
    driver = Driver(builder.build())
    driver.send_all(DriverRecord("scores", *one) for one in [("a", 1, 0), ("a", 3, 1), ("a", 4, 2), ("a", -1, 3)])
    assert driver.read("out") == [("odd", 1), ("odd", 1), ("odd", 0), ("even", 1), ("even", 0)]
    assert dict(driver.store("all").all()) == {"odd": [], "even": []}
    assert driver.dropped() == {"null key or value": 1}


def test_a_named_group_has_one_repartition_topic() -> None:
    builder = StreamsBuilder("app")
    grouped = scores(builder).group_by(lambda key, score: (score, key), key=int, value=str, name="by-score")
    grouped.count(name="counts")
    grouped.reduce(lambda row, key: row + key, lambda row, key: row.replace(key, ""), name="keys")
    topology = builder.build()
    driver = Driver(topology, partitions=2)
    driver.send_all(DriverRecord("scores", key, score, 0, -1) for key, score in [("a", 1), ("b", 1), ("a", 2)])
    assert list(topology.repartitions) == ["by-score-repartition"]
    assert dict(driver.store("counts").all()) == {1: 1, 2: 1}
    assert dict(driver.store("keys").all()) == {1: "b", 2: "a"}


def test_a_mapper_that_does_not_return_a_pair_is_an_error() -> None:
    builder = StreamsBuilder("app")
    scores(builder).group_by(lambda key, score: score).count()
    builder.stream("other").to("out")
    with pytest.raises(StepError, match=r"KTABLE-SELECT.*returned 1; return a pair"):
        run(builder, ("a", 1))


def test_with_the_cache_a_group_gets_the_changes_since_the_last_commit() -> None:
    builder = StreamsBuilder("app")
    grouped = scores(builder).group_by(lambda key, score: ("all", score))
    seen: list[tuple[str, int]] = []

    def add(_: str, score: int, total: int) -> int:
        seen.append(("add", score))
        return total + score

    def take(_: str, score: int, total: int) -> int:
        seen.append(("take", score))
        return total - score

    grouped.aggregate(lambda: 0, add, take).to_stream().to("out")
    driver = Driver(builder.build(), cache=100_000)
    for batch in ([1, 2, 3], [4, 5], [6, None], [7, None]):
        driver.send_all(DriverRecord("scores", "a", score, 0) for score in batch)
    assert seen == [("add", 3), ("take", 3), ("add", 5), ("take", 5)]
    assert driver.read("out") == [("all", 3), ("all", 5), ("all", 0)]
