"""The loop of a worker: follow the assignment, read, process, commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

from streamtopo.dead_letters.letters import dead_letter_topic
from streamtopo.engine.assignment.global_tasks import GlobalTasks
from streamtopo.engine.assignment.tasks import Opening, OpenStore, Tasks
from streamtopo.engine.failures.policies import Policies
from streamtopo.engine.failures.rejections import Rejections
from streamtopo.engine.loading import Described, topology_of
from streamtopo.engine.metrics import Metrics
from streamtopo.engine.plan import Plan
from streamtopo.engine.program.stations import Failure
from streamtopo.engine.task.ahead import CLOCK_SET, by_source, warn_of_unset_clock
from streamtopo.engine.task.entries import IdleEntry, RoundEntry, TickEntry
from streamtopo.engine.task.options import TaskId, TaskOptions
from streamtopo.engine.task.task import Task
from streamtopo.engine.topics.topics import Topics
from streamtopo.engine.tracebacks import without_engine
from streamtopo.engine.worker.commit import commit
from streamtopo.engine.worker.order import in_order_of_time
from streamtopo.engine.worker.pace import Pace
from streamtopo.engine.worker.repartition_topics import RepartitionTopics
from streamtopo.engine.worker.replay import Replay
from streamtopo.engine.worker.row_memory import RowMemory
from streamtopo.engine.worker.run import run
from streamtopo.engine.worker.worker_metrics import WorkerMetrics
from streamtopo.errors import CommitsRefused, LogError, RecordTooLarge, SerdeError, StepError
from streamtopo.logs import Log, Member, Outcome
from streamtopo.logs.opening import DEFAULT, open_log
from streamtopo.records import TopicPartition
from streamtopo.settings.config import WorkerConfig, config_of
from streamtopo.stores.backends.opening import stores_on_disk
from streamtopo.topology import Topology
from streamtopo.wall_clock import steady_clock, wall_clock

logger = logging.getLogger("streamtopo")


def _shown(worker: Worker) -> str:
    name, ending = worker._rejections.application, ", stopping" if worker.stopping else ""
    return f"Worker({name}: {len(worker.tasks)} of {sum(worker.plan.tasks)} tasks running{ending})"


_POLL_CHUNKS = 4
"""How many chunks are read at a time: partitions share them, and small shares would make small chunks."""

_FEW = 10
"""A worker that reads less than this part of a chunk, and has no rows waiting, has caught up."""

_PATIENCE = 5
"""How many commits in a row may be refused before the worker gives up."""

_RESUMED_WITHIN = 0.01
"""Seconds: how often a paused worker checks whether it is still paused."""


class Worker:
    """One worker of an application. Only `stop` and `metrics` may be called by any thread.

    `Worker(topology, log="embedded:.streamtopo", on_error="skip").run()` runs until it is stopped. The options are
    those of `WorkerConfig`. `address` tells other members where this one answers queries. Tests give `open_store`,
    `now` and `steady` to have their own stores and clocks.
    """

    def __init__(
        self,
        topology: Described | str,
        log: Log | str = DEFAULT,
        open_store: OpenStore | None = None,
        *,
        now: Callable[[], int] = wall_clock,
        steady: Callable[[], float] = steady_clock,
        config: WorkerConfig | None = None,
        depth_first: bool = False,
        address: str = "",
        **options: Any,
    ) -> None:
        topology = topology_of(topology)
        self.config = config or config_of(**options)
        on_disk = self.config.memory - self.config.row_memory - self.config.compaction_memory
        open_store = open_store or stores_on_disk(topology.application_id, self.config.state_dir, on_disk)
        self.begun = False
        """Whether there was a turn after the group had assigned the tasks, and global tables were loaded."""
        self.stopping = False
        self.paused = False
        """Process nothing, but commit what was done and stay in the group; may be set by any thread."""
        self._read_little = False
        self._now = now
        self._pace = Pace(self.config, steady)
        ahead = by_source(topology, self.config.max_ahead)
        settings = TaskOptions(
            now,
            self._pace.request,
            self.config.chunk,
            self.config.cache,
            depth_first,
            ahead=ahead,
            clock_set=_clock_set(now),
            max_task_idle=self.config.max_task_idle,
            steady_clock=steady,
        )
        with ExitStack() as opened:
            self.log = opened.enter_context(closing(open_log(log))) if isinstance(log, str) else log
            least = 0 if self.log.one_machine else 1
            settings = settings._replace(origin_idle=max(self.config.origin_idle, least))
            self._join(topology, open_store, settings, address)
            self._opened = opened.pop_all()
            """Closes the log, if it was given as a URL."""
        self._row_memory = RowMemory(self.config, self._tasks, self.globals)
        self._rejections = Rejections(
            Policies(topology, self.config.on_error),
            topology.application_id,
            dead_letter_topic(topology.application_id, self.config.dead_letter_topic),
            self._tasks.partitions,
            steady,
            self._tasks.outbox.limits,
        )
        self._replay = Replay(self._tasks, self._rejections.reject, self._pace)
        self._metrics = WorkerMetrics(self._tasks, self._pace, self._rejections, self._repartitions.held_back)

    def _join(self, topology: Topology, open_store: OpenStore, settings: TaskOptions, address: str) -> None:
        topics = Topics(topology, self.log, self.config, settings.steady_clock)
        self.globals = GlobalTasks(topology, self.log, topics.partitions, settings, self.config)
        settings = settings._replace(global_states=self.globals.states)
        exactly_once = self.config.exactly_once
        self._tasks = Tasks(
            topology, self.log, topics, open_store, settings, address=address, exactly_once=exactly_once
        )
        self._repartitions = RepartitionTopics(topology, self.log, self._tasks, self.config, settings)

    __repr__ = _shown

    @property
    def tasks(self) -> dict[TaskId, Task]:
        """The tasks that are restored and running."""
        return self._tasks.ready

    @property
    def plan(self) -> Plan:
        return self._tasks.plan

    @property
    def opening(self) -> Mapping[TaskId, Opening]:
        """The tasks that are being restored."""
        return self._tasks.opening

    @property
    def member(self) -> Member:
        return self._tasks.member

    @property
    def skipped(self) -> int:
        """How many records failed and were skipped, without a dead letter."""
        return self._rejections.skipped

    # -- running it

    def run(self) -> None:
        """Run until `stop`, SIGTERM or Ctrl-C, then commit and leave. A second signal ends the process at once."""
        try:
            run(self)
        except StepError as error:
            raise without_engine(error)  # noqa: B904  it is the same error

    def stop(self) -> None:
        """Stop soon. May be called by any thread and by signal handlers."""
        self.stopping = True

    def close(self) -> None:
        """Commit, close and leave the group, also if the commit fails, so that others can take over immediately."""
        with self._opened, closing(self.globals), closing(self._tasks), self._all_or_nothing():
            self._commit_if_needed()

    def abandon(self) -> None:
        """Close and leave the group without a commit, after a failure."""
        with self._opened, closing(self.globals), closing(self._tasks):
            self._drop_all()

    def metrics(self) -> Metrics:
        """The numbers of the live view. Any thread may call it; other threads get the numbers of a moment ago."""
        return self._metrics.now()._replace(paused=self.paused)

    # -- one turn

    def run_once(self, timeout: float = 0.0) -> bool:
        """Do one turn of work. True if something was read, restored, processed or committed: there may be more."""
        self._metrics.begin()
        try:
            with self._all_or_nothing():
                placed = self.member.placed
                worked = self._turn(timeout)
                self.begun = self.begun or (placed and self.globals.loaded)
                self._metrics.update()
                return worked
        except RecordTooLarge as error:
            limits = self._tasks.outbox.limits
            if error.topic in limits or not (limit := self.log.largest(error.topic)):
                raise  # each record is small enough
            limits[error.topic] = limit  # what was done is undone; when it is done again, the record is found
            return True
        except LogError:
            self._tasks.check_topics()  # "was deleted" says more than "does not exist"
            raise

    def _turn(self, timeout: float) -> bool:
        self._tasks.follow_assignment(self._commit_if_needed)
        updated = self.globals.update(self._rejections.reject)
        if not self.globals.loaded:
            self._read(0.0 if updated else timeout)  # no task is ready: only the group hears of this worker
            return updated
        restored = self._tasks.restore(self.config.chunk)
        if self._read_little and not restored:
            self._pace.rest(timeout)
        if self.paused:
            timeout = min(timeout, _RESUMED_WITHIN)
        read, held_back = self._read(
            0.0 if updated or restored or self._pace.undurable or self._rows_waiting() else timeout
        )
        worked = not self.paused and self._process() | self._tick() | self._advance_idle()
        idle = not read and not worked
        if idle and not self.paused and not self._pace.undurable and self._repartitions.news:
            self._pace.did(0)
        self._read_little = read < self.config.chunk // _FEW and not held_back and not self._rows_waiting()
        due = self._pace.due(caught_up=idle or self._read_little) or self._row_memory.full
        if due:
            self._commit()
        return updated or restored or due or not idle

    def _read(self, timeout: float) -> tuple[int, bool]:
        """How many records there were (a gap counts as one), and whether some inputs are full and were not read."""
        limit = self.config.chunk
        full = {one.partition for one in self._tasks.inputs() if self.paused or one.full(limit)}
        batches = self.member.poll(_POLL_CHUNKS * limit, timeout, full, self._give_back)
        again = [records for task in self.tasks.values() for records in task.add_unread(self._rejections.reject)]
        if again:
            self._pace.did(sum(again))
        for batch in batches:
            task = self._tasks.reading(batch.source)
            if task is not None:
                self._pace.did(task.add(batch, self._rejections.reject))
        return len(again) + sum(len(batch.offsets) or 1 for batch in batches), bool(full)

    def _give_back(self, partitions: frozenset[TopicPartition]) -> None:
        """The group takes these away when this returns. After that they cannot be committed."""
        with self._all_or_nothing():
            self._commit_if_needed()
        self._tasks.close_readers(partitions)

    def _rows_waiting(self) -> bool:
        """Whether rows wait for their round, and may be processed."""
        return not self.paused and any(task.has_rows for task in self.tasks.values())

    def _process(self) -> bool:
        """One round of each task that has one. A commit that is due does not wait for the other tasks."""
        ends = self.member.ends()
        worked = False
        for task in in_order_of_time(self.tasks.values(), self._tasks.marked.subtopologies):
            if self.tasks.get(task.id) is not task:
                continue
            moved = self._repartitions.follow_horizon(task, self._replay.do)
            if (taken := task.take(ends)) is not None:
                self._replay.do(RoundEntry(task, taken))
                self._repartitions.follow_horizon(task, self._replay.do)
            if taken is not None or moved:
                worked = True
                if self._pace.due(caught_up=False):
                    self._commit()
        return worked

    def _tick(self) -> bool:
        now = self._now()
        due = [task for task in self.tasks.values() if task.due("wall_clock", now)]
        for task in due:
            self._replay.do(TickEntry(task, now))
        return bool(due)

    def _advance_idle(self) -> bool:
        """Move the stream time of idle tasks, once nothing waits for its round or for a commit."""
        patience = self.config.idle_advance
        if patience <= 0 or self._pace.undurable or any(one.waiting.offsets for one in self._tasks.inputs()):
            return False
        for task in self.tasks.values():
            if (time := task.progress.idle_time(patience)) is not None:
                self._replay.do(IdleEntry(task, time))
        return self._pace.undurable

    # -- commit

    def commit(self) -> bool:
        """Commit. True if all work so far is durable now; otherwise it is undone, and will be done again."""
        with self._all_or_nothing():
            return self._commit()

    def _commit(self) -> bool:
        try:
            return self._flush_and_commit()
        except (Failure, SerdeError):
            self._replay.do_all_carefully()
        return self._flush_and_commit()

    def _flush_and_commit(self) -> bool:
        for task in self.tasks.values():
            task.before_commit()
        with self._pace.committing():
            committed, broken = commit(
                self.tasks.values(), self.member, self._rejections.outputs, self._repartitions.marks
            )
        if committed.outcome is Outcome.DONE:
            self._replay.clear()
            self._rejections.committed()
            self._pace.committed()
            for task in self.tasks.values():
                task.committed()
            self._repartitions.committed()
            self._tasks.drop(broken)
            self._row_memory.trim()
            return True
        logger.warning("commit %s: %s; going back to the last commit", committed.outcome.value, committed.reason)
        if self._pace.refused() == _PATIENCE:
            raise CommitsRefused(f"{committed.reason} (the log refused {_PATIENCE} commits, one after the other)")
        if committed.outcome is Outcome.UNKNOWN:
            self.member.settle()
        self._drop_all()
        return False

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """If anything interrupts the work, drop what was not committed.

        If the policy stops at a record, all that was done before the record is complete: then try to commit it first.
        """
        try:
            yield
        except BaseException as error:
            try:
                if isinstance(error, StepError) and self._pace.undurable:
                    with suppress(Failure, SerdeError):
                        self._flush_and_commit()
            finally:
                self._drop_all()
            raise

    def _drop_all(self) -> None:
        """Forget what is not committed; the tasks are opened again from the log."""
        self._tasks.outbox.discard()
        self.member.abort()
        self._replay.clear()
        self._pace.forget()
        self._tasks.drop(self.tasks.values())

    def _commit_if_needed(self) -> None:
        if self._pace.undurable:
            self._commit()


def _clock_set(now: Callable[[], int]) -> int:
    """Before this time the wall clock was never set; the clocks of tests may start at 0."""
    if now is not wall_clock:
        return 0
    if now() < CLOCK_SET:
        warn_of_unset_clock(now())
    return CLOCK_SET
