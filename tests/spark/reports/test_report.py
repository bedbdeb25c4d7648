"""How a report draws unusual rows; `test_sensors.py` checks a whole report in a browser."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.sql import Row

from streamtopo.spark.reports.report import Shape, drawn

SHAPE = Shape("day", ["site"], ["n"])
FIRST, SECOND = date(2026, 11, 17), date(2026, 11, 18)


def rows(*found: tuple[date | None, str, float | None]) -> list[Row]:
    return [Row(day=day, site=site, n=n) for day, site, n in found]


def test_several_spans_and_few_names_are_drawn_as_lines() -> None:
    (figure,) = drawn(SHAPE, rows((SECOND, "a", 3), (SECOND, "<b>", 1), (FIRST, "a", 2)))
    assert figure.count("<polyline") == 2
    assert ("&lt;b&gt;" in figure, "<b>" in figure) == (True, False)
    assert ("2026-11-17" in figure, "2026-11-18" in figure) == (True, True)


def test_many_names_are_drawn_as_bars_of_the_last_span() -> None:
    found = rows(*((SECOND, f"s{number}", number - 5) for number in range(30)), (FIRST, "old", 99))
    (figure,) = drawn(SHAPE, found)
    assert (figure.count("<rect"), "s29" in figure, "s9<" in figure, "old" in figure) == (20, True, False, False)


def test_rows_that_cannot_be_drawn_are_left_out() -> None:
    assert list(drawn(SHAPE, [])) == []
    assert list(drawn(SHAPE, rows((SECOND, "a", None), (FIRST, "a", None)))) == []
    (figure,) = drawn(SHAPE, rows((SECOND, "a", float("nan")), (FIRST, "a", 2), (None, "a", 5)))
    assert figure.count("<circle") == 1


@pytest.mark.parametrize("values", [(1e-14, 3e-14), (1.7e18, 1.7e18), (-1e17, -1e17), (1e-300, 2e-300)])
def test_tiny_and_huge_numbers_are_drawn(values: tuple[float, float]) -> None:
    (figure,) = drawn(SHAPE, rows((SECOND, "a", values[0]), (FIRST, "a", values[1])))
    assert figure.count("<circle") == 2
