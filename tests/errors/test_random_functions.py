"""Functions that change values in place and then fail, inside of all kinds of nodes of random topologies."""

from __future__ import annotations

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from streamtopo import Topology
from streamtopo.testing import Driver, DriverRecord
from tests.errors.test_random_topologies import DEAD_LETTER, answers, letters
from tests.exactness.graphs import records, topologies
from tests.exactness.test_chunks import outputs, rows
from tests.in_place import weakness


@pytest.mark.parametrize("chunk", [1, 3, 7, 10_000])
@given(topology=topologies(), sent=records(), answer=answers, cut=st.integers(0, 25))
def test_any_chunk_size_leaves_out_the_same(
    chunk: int, topology: Topology, sent: list[DriverRecord], answer: str, cut: int
) -> None:
    note(topology.describe())
    with weakness():
        oracle = Driver(topology, chunk=1, depth_first=True, on_error=DEAD_LETTER)
        driver = Driver(topology, chunk=chunk, on_error=answer)
        for one in (oracle, driver):
            one.send_all(sent[:cut])
            one.send_all(sent[cut:])
        assert letters(driver) == letters(oracle)
        assert outputs(driver) == outputs(oracle)
        assert rows(driver) == rows(oracle)
