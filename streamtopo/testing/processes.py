"""The parts of a Cluster: processes that can be killed or stopped at every durable step, and their disks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from random import Random

from streamtopo.engine.task.task import Task
from streamtopo.engine.worker.worker import Worker
from streamtopo.logs import CommitResult, Outcome, Revoking, ignored
from streamtopo.logs.memory import MemoryLog, MemoryMember
from streamtopo.records import Batch, Position, TopicPartition
from streamtopo.stores import Changes, StoreSpec
from streamtopo.stores.backends.memory import MemoryStore

_SHORT_POLLS = 0.2
"""The part of the polls that return only a few records."""


class Killed(BaseException):
    """Ends a process where it is, as SIGKILL does."""


class Process:
    """A process with one worker. What survives it is in the log and on the disk of its machine."""

    def __init__(self, machine: int, worker: Worker) -> None:
        self.machine = machine
        self.alive = True
        self.paused = False
        self.in_turn = False
        """Also while it is stopped in the middle of its turn."""
        self.idle = 0
        """How many turns in a row had nothing to do."""
        self.answer_lost = False
        """Whether the next answer to a commit is lost."""
        self._countdown = -1
        self._then: Callable[[], object] = lambda: None
        self._dropped: dict[Task, Counter[str]] = {}
        self.worker = worker

    @property
    def ready(self) -> bool:
        return self.alive and not self.paused and not self.in_turn

    @property
    def member(self) -> MemoryMember:
        member = self.worker.member
        assert isinstance(member, MemoryMember)
        return member

    def after(self, steps: int, then: Callable[[], object]) -> None:
        """Do this before the durable step after that many others."""
        self._countdown, self._then = steps, then

    @property
    def counting(self) -> bool:
        """Whether what was asked for `after` some steps was not done yet."""
        return self._countdown >= 0

    def durable(self) -> None:
        """Something is about to be done that survives the process."""
        self._countdown -= 1
        if self._countdown == -1:
            self._then()

    def kill(self) -> None:
        """Nothing is closed or committed on the way out."""
        self.worker.tasks.clear()
        raise Killed

    def committed(self) -> None:
        for task in self.worker.tasks.values():
            self._dropped[task] = task.progress.dropped_until(task.progress.written)

    def dropped(self) -> Counter[str]:
        """The rows dropped in rounds that were committed, by reason."""
        return sum(self._dropped.values(), Counter[str]())


class Stage:
    """Tells the log and the disks which process runs now."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.process: Process | None = None

    def durable(self) -> None:
        if self.process is not None:
            self.process.durable()


class ClusterLog(MemoryLog):
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        super().__init__(lambda: f"{stage.random.getrandbits(128):032x}")

    def positions(self, group: str) -> Mapping[TopicPartition, Position]:
        return self._groups[group].positions

    def _member(self, group: object, topics: Iterable[tuple[str, ...]]) -> MemoryMember:
        return ClusterMember(self, group, topics)  # type: ignore[arg-type]


class ClusterMember(MemoryMember):
    """Some of its polls return little, and processes may end, stop, or lose the answer in its commits."""

    _log: ClusterLog

    def poll(
        self, limit: int, timeout: float, paused: Container[TopicPartition] = (), revoking: Revoking = ignored
    ) -> list[Batch]:
        random = self._log.stage.random
        if random.random() < _SHORT_POLLS:
            limit = min(limit, random.randint(1, 10))
        return super().poll(limit, timeout, paused, revoking)

    def commit(self, positions: Mapping[TopicPartition, Position]) -> CommitResult:
        stage = self._log.stage
        stage.durable()
        process, lost = stage.process, False
        if process is not None and process.answer_lost:
            process.answer_lost, lost = False, True
            if stage.random.random() < 0.5:
                return CommitResult(Outcome.UNKNOWN, reason="the request was lost")
        result = super().commit(positions)
        if result.outcome is Outcome.DONE and process is not None:
            process.committed()
        stage.durable()
        return CommitResult(Outcome.UNKNOWN, reason="the answer was lost") if lost else result


class DiskStore(MemoryStore):
    """The store of a task on a machine. It survives the process."""

    def __init__(self, stage: Stage, now: Callable[[], int]) -> None:
        super().__init__(now=now)
        self._stage = stage

    def write(self, changes: Changes, positions: Mapping[str, int], *, as_of: int | None = None) -> None:
        self._stage.durable()
        super().write(changes, positions, as_of=as_of)


class Disk:
    def __init__(self, stage: Stage, now: Callable[[], int]) -> None:
        self._stage = stage
        self._now = now
        self._stores: dict[tuple[str | int, ...], DiskStore] = {}

    def open(self, stores: tuple[StoreSpec, ...], partition: int) -> MemoryStore:
        if all(spec.in_memory for spec in stores):
            return MemoryStore(now=self._now)
        name: tuple[str | int, ...] = (*(spec.name for spec in stores), partition)
        return self._stores.setdefault(name, DiskStore(self._stage, self._now))

    def lose(self) -> None:
        self._stores.clear()
