"""The machines of a Cluster: each has a disk, and one worker at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from streamtopo.engine.plan import Plan
from streamtopo.engine.worker.worker import Worker
from streamtopo.errors import CommitsRefused
from streamtopo.records import TopicPartition
from streamtopo.settings.config import config_of
from streamtopo.testing.agenda import Agenda
from streamtopo.testing.processes import ClusterLog, Disk, Process
from streamtopo.topology import Topology

_CHOICES = {
    "chunk": (1, 3, 10, 100, 10_000),
    "commit_interval": (0, 20, 100, 1000),
    "commit_pause": (0, 1, 50),
}
"""Options that change when and how much a worker does, but not what comes out in the end."""


class Machines:
    def __init__(
        self, topology: Topology, log: ClusterLog, agenda: Agenda, random: Random, options: Mapping[str, Any]
    ) -> None:
        self.processes: list[Process] = []
        """Those that live, also the paused ones."""
        self._topology = topology
        self._log = log
        self._agenda = agenda
        self._random = random
        self._config = config_of(**options)
        self._free = {name: values for name, values in _CHOICES.items() if name not in options}
        self._disks: dict[int, Disk] = {}
        self._dropped_before = Counter[str]()

    def start(self, machine: int) -> Process:
        now, stage = lambda: self._agenda.now, self._log.stage
        disk = self._disks.setdefault(machine, Disk(stage, now))
        chosen = {name: self._random.choice(values) for name, values in self._free.items()}
        config = replace(self._config, **chosen)  # type: ignore[arg-type]
        worker = self._last = Worker(self._topology, self._log, disk.open, now=now, steady=now, config=config)
        process = Process(machine, worker)
        self.processes.append(process)
        return process

    def leave(self, process: Process) -> None:
        before, self._log.stage.process = self._log.stage.process, process
        try:
            with suppress(CommitsRefused):  # it has left all the same
                process.worker.close()
        finally:
            self._log.stage.process = before
        self.forget(process)

    def forget(self, process: Process) -> None:
        """It has ended. Unless it has left the group, its member is still there."""
        process.alive = False
        self.processes.remove(process)
        self._dropped_before += process.dropped()

    def lose_disk(self, machine: int) -> None:
        self._disks.pop(machine)

    def dropped(self) -> Counter[str]:
        return sum((process.dropped() for process in self.processes), self._dropped_before.copy())

    # -- the work of the group

    def settled(self) -> bool:
        """Whether each task runs somewhere, and nothing waits for a commit."""
        workers = [process.worker for process in self.processes]
        tasks = {id for worker in workers for id in worker.tasks}
        return len(tasks) == sum(self._plan.tasks) and not any(worker._pace.undurable for worker in workers)

    @property
    def _plan(self) -> Plan:
        return (self.processes[0].worker if self.processes else self._last).plan

    def unfinished(self) -> dict[TopicPartition, int]:
        """How many records of each partition are not yet processed and committed."""
        positions = self._log.positions(self._topology.application_id)
        topics, left = self._log.topics(), {}
        for names in self._plan.topics:
            for partition in (TopicPartition(name, n) for name in names for n in range(topics[name].partitions)):
                committed = positions.get(partition)
                missing = self._log.end(partition) - (committed.offset if committed else self._log.start(partition))
                if missing > 0:
                    left[partition] = missing
        return left
