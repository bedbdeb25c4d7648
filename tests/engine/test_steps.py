"""Steps and their hooks, in a program that the Driver runs."""

from __future__ import annotations

from streamtopo.records import Chunk, Puts
from streamtopo.steps import Step
from streamtopo.testing import Driver
from streamtopo.topology import Topology
from streamtopo.topology.nodes import ProcessorNode
from streamtopo.topology.operator import Operator


class Counting(Step):
    """Forwards nothing but, before each commit, how many rows there were since the last one."""

    def __init__(self, closed: list[Step]) -> None:
        self._closed = closed
        self._count = 0

    def process(self, chunk: Chunk) -> Chunk:
        self._count += len(chunk)
        return Chunk([], [], [])

    def before_commit(self) -> Chunk:
        count, self._count = self._count, 0
        return Chunk(["rows"], [count], [0]) if count else Chunk([], [], [])

    def close(self) -> None:
        self._closed.append(self)


def test_a_step_forwards_before_commits_and_is_closed_with_its_task() -> None:
    closed: list[Step] = []
    topology = Topology().add_source("read", "input", key=str, value=str)
    topology.add(ProcessorNode("count", ("read",), Operator(lambda bindings: Counting(closed))))
    topology.add_sink("write", "output", "count", key=str, value=int)
    driver = Driver(topology)
    driver.send("input", "a", key="k")
    driver.send("input", "b", key="k")
    assert [value for _, value in driver.read("output")] == [1, 1]
    assert closed == []
    driver.close()
    assert len(closed) == 1


def test_puts_come_before_rows_of_the_same_order_and_move_with_what_a_row_releases() -> None:
    puts = Puts(["a", "b", "c"], [1, 2, None], [10, 20, 30], [0, 4, 9], {}).among([2, 4, 6])
    assert (puts.index, puts.places) == (["a", "b", "c"], [0, 1, 3])
    assert puts.moved([0, 0, 2]).places == [0, 2, 3]
