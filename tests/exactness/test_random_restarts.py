"""Random topologies that are killed and started again, also in the middle of their work: results do not change."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from streamtopo import Topology
from streamtopo.stores import Store, StoreSpec
from streamtopo.stores.backends.rocks import MemoryBudget, RocksStore
from streamtopo.testing import Driver, DriverRecord
from tests.exactness.graphs import FOREIGN, GROUPED, OUTPUTS, records, topologies

SLOW_TIME, FAST_TIME = 1, 1000
"""In slow time nothing expires; in fast time segments of windows and joins expire."""


class OnDisk(Driver):
    """Stores are on a disk that survives a crash."""

    def __init__(self, topology: Topology, directory: Path, **options: Any) -> None:
        self._directory, self._opened = directory, list[RocksStore]()
        self._names: dict[tuple[str | int, ...], int] = {}
        super().__init__(topology, **options)

    def _open_store(self, stores: tuple[StoreSpec, ...], partition: int) -> Store:  # type: ignore[override]
        name: tuple[str | int, ...] = (*(spec.name for spec in stores), partition)
        number = self._names.setdefault(name, len(self._names))
        self._opened.append(RocksStore(self._directory / str(number), MemoryBudget(1 << 20)))
        return self._opened[-1]

    def crash(self) -> None:
        super().crash()
        for store in self._opened:
            store.close()  # the disk has only what was committed


def send(driver: Driver, group: list[DriverRecord], killed_after: int | None) -> None:
    """With a kill, stop after this many turns of the worker's loop: what those did is lost or already committed."""
    driver.worker.paused = killed_after is not None
    driver.send_all(group)
    if killed_after is not None:
        driver.worker.paused = False
        for _ in range(killed_after):
            driver.worker.run_once()
        driver.crash()
        driver.restart()


def results(driver: Driver) -> dict[str, Any]:
    """Return what was written, in order; where answers from other tasks arrive at any time, only the last values."""
    topics = {topic: driver.records(topic) for topic in (*OUTPUTS, *GROUPED) if topic in driver.log.topics()}
    last = {record.key: record.value for record in driver.records(FOREIGN)} if FOREIGN in driver.log.topics() else {}
    return topics | {FOREIGN: {key: value for key, value in last.items() if value is not None}}


Plan = list[tuple[int, int | None]]
kills = st.lists(st.tuples(st.integers(1, 8), st.one_of(st.none(), st.integers(0, 6))), min_size=1, max_size=8)
"""How many records are sent together, and after how many turns the worker is killed."""


def compare(topology: Topology, sent: list[DriverRecord], plan: Plan, disturbed: Driver, calm: Driver) -> None:
    note(topology.describe())
    while sent:
        for size, killed_after in plan:
            group, sent = sent[:size], sent[size:]
            if group:
                send(calm, group, None)
                send(disturbed, group, killed_after)
    assert results(disturbed) == results(calm)


def spread(sent: list[DriverRecord], pace: int) -> list[DriverRecord]:
    return [record._replace(timestamp=record.timestamp * pace) for record in sent]


options = st.fixed_dictionaries({"chunk": st.sampled_from([1, 3, 10_000]), "cache": st.sampled_from([0, 100_000])})
paces = st.sampled_from([SLOW_TIME, FAST_TIME])


@settings(max_examples=settings().max_examples * 2)
@given(topology=topologies(foreign=True), sent=records(), plan=kills, pace=paces, options=options)
def test_kills_change_nothing(
    topology: Topology, sent: list[DriverRecord], plan: Plan, pace: int, options: dict[str, Any]
) -> None:
    """The disk is lost too: stores are restored from their changelogs."""
    compare(topology, spread(sent, pace), plan, Driver(topology, **options), Driver(topology, **options))


@settings(max_examples=settings().max_examples // 2)
@given(topology=topologies(foreign=True), sent=records(), plan=kills, pace=paces, options=options)
def test_kills_change_nothing_on_disk(
    topology: Topology, sent: list[DriverRecord], plan: Plan, pace: int, options: dict[str, Any]
) -> None:
    """RocksDB compared with an undisturbed store in memory."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as after:
        disturbed = OnDisk(topology, Path(directory), **options)
        after.callback(disturbed.close)
        compare(topology, spread(sent, pace), plan, disturbed, Driver(topology, **options))
