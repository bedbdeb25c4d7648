"""What a task remembers fits next to its positions: Kafka accepts 4,095 characters for each."""

from __future__ import annotations

from random import Random

import pytest

from streamtopo import StreamsBuilder, Topology, Windows
from streamtopo.engine.task.metadata import clocks_in, read, time_in, written
from streamtopo.engine.task.options import TaskId
from streamtopo.engine.task.origins import Known, Origins, recalled
from streamtopo.testing import Driver, DriverRecord

MOST = 4_095
NOW = 1_700_000_000_000
PARTITIONS = 256


def many_windows(count: int) -> Topology:
    """In one task, with long names, after a repartition topic that 256 tasks write."""
    builder = StreamsBuilder("many")
    clicks = builder.stream("in", value=str).select_key(lambda _, user: user, key=str)
    users = clicks.repartition(partitions=1).group_by_key()
    for number in range(count):
        windows = users.windowed_by(Windows.tumbling(f"{number + 1}s"), emit="on_close")
        counts = windows.count(name=f"clicks-of-each-user-in-the-web-shop-per-{number + 1}-seconds")
        counts.to_stream(lambda window, _: window.key, key=str).to("out")
    return builder.build()


@pytest.mark.parametrize("count", [1, 40])
def test_positions_of_tasks_with_many_clocks_and_origins_fit_and_are_found_again(count: int) -> None:
    random, driver = Random(1), Driver(many_windows(count), partitions=PARTITIONS)
    times = [random.randrange(86_400_000) for _ in range(PARTITIONS)]
    driver.send_all(DriverRecord("in", None, "ann", NOW + time, n, ()) for n, time in enumerate(times))
    (before,) = [task for task in driver.worker.tasks.values() if task.progress.clocks.times()]
    (position,) = before.progress.positions().values()
    assert len(position.metadata) <= MOST
    assert time_in(position.metadata) is not None
    driver.restart()
    after = driver.worker.tasks[before.id]
    assert after.progress.clocks.times() == before.progress.clocks.times()
    assert [one.known for one in after.progress.origins()] == [one.known for one in before.progress.origins()]


@pytest.mark.parametrize("clocks", [0, 20, 40, 100, 250])
def test_origins_get_what_clocks_leave(clocks: int) -> None:
    """With less space their times are rounded, but none is forgotten; clocks are never rounded."""
    random, ids = Random(clocks), [TaskId(0, number) for number in range(PARTITIONS)]
    known = Known(tuple([NOW + random.randrange(86_400_000) for _ in ids]), (True,) * PARTITIONS)
    times = {f"clicks-of-each-user-per-{n}-seconds/newest": NOW + random.randrange(86_400_000) for n in range(clocks)}
    text = written({"partition": NOW, "time": NOW, "clocks": times, "due": {}}, Origins(ids, known))
    assert len(text) <= MOST
    assert clocks_in(text) == times
    found = recalled(ids, read(text)["origins"], older=False)
    assert found == known or clocks > 100
    assert all(NOW - 3_600_000 < one <= other for one, other in zip(found.times, known.times, strict=True))
    assert time_in(text) is not None


def test_a_position_of_the_version_before_is_understood() -> None:
    text = '{"partition":5,"time":5,"clocks":{"counts/newest":5},"due":{},"origins":null}'
    assert written({"partition": 5, "time": 5, "clocks": {"counts/newest": 5}, "due": {}}, None) == text
    assert clocks_in(text) == {"counts/newest": 5}
