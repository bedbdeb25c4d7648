"""Impossible joins are refused when they are described."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamtopo import StreamsBuilder
from streamtopo.errors import TopologyError
from tests.joins.two_streams import plus

WRONG: dict[str, Callable[[StreamsBuilder, Any, Any], Any]] = {
    "which times match": lambda _, left, right: left.join(right, plus),
    "before and after": lambda _, left, right: left.join(right, plus, before=5),
    "ends before it begins": lambda _, left, right: left.join(right, plus, before=5, after=-6),
    "grace -1 ms": lambda _, left, right: left.join(right, plus, within=5, grace=-1),
    "keys are str and int": lambda b, left, _: left.join(b.stream("x", key=int), plus, within=1),
    "keys are str and bytes": lambda b, left, _: left.join(b.table("x"), plus),
    "has no option within": lambda _, left, right: left.join(right.to_table(), plus, within=5),
    "give the time by its name: within='5s'": lambda _, left, right: left.join(right, plus, "5s"),
    "of wrong, test_refused.py:": lambda _, left, right: left.join(right, plus),
    "has no option withn": lambda _, left, right: left.join(right, plus, withn=5),
    "takes a joiner": lambda _, left, right: left.join(right, within=5),
    "join by another key, read a small table with builder.global_table": lambda _, left, right: left.join(
        right.to_table(), plus, plus
    ),
    "cannot be outer-joined": lambda _, left, right: left.outer_join(right.to_table(), plus),
    "cannot be inner-joined with 'right'": lambda _, left, __: left.join("right", plus, within=5),
    "different builders": lambda _, left, __: left.join(StreamsBuilder("o").stream("x", key=str), plus, within=5),
    "keeps no history": lambda _, left, right: left.join(right.to_table(), plus, grace=5),
    "keeps 4 ms of history": lambda _, left, right: left.join(right.to_table(versioned=4), plus, grace=5),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_impossible_join_is_refused(wrong: str) -> None:
    builder = StreamsBuilder("wrong")
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    with pytest.raises(TopologyError, match=wrong.replace("before and after", "before= and after=")):
        WRONG[wrong](builder, left, right)
