"""The loop: follow the assignment, read, process, commit; roll back and replay what raised."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

from streamtopo.config import OnError, WorkerConfig, config_of
from streamtopo.engine.ahead import CLOCK_SET, by_source, warn_of_unset_clock
from streamtopo.engine.commit import commit
from streamtopo.engine.globals import Globals
from streamtopo.engine.journal import Entry, IdleEntry, RoundEntry, TickEntry
from streamtopo.engine.loading import Described, topology_of
from streamtopo.engine.metrics import Metrics
from streamtopo.engine.pace import Pace
from streamtopo.engine.plan import Plan
from streamtopo.engine.purging import Purging
from streamtopo.engine.running import run, wall_clock
from streamtopo.engine.stations import Failure
from streamtopo.engine.task import Options, Task, TaskId
from streamtopo.engine.tasks import Opening, OpenStore, Tasks
from streamtopo.engine.topics import Topics
from streamtopo.errors import LogError, SerdeError, StepError
from streamtopo.logs import Log, Outcome
from streamtopo.logs.opening import DEFAULT, open_log
from streamtopo.records import TopicPartition
from streamtopo.stores.opening import stores_on_disk
from streamtopo.stores.state import State
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")

_POLL_CHUNKS = 4
"""Partitions share what is read at a time; small shares would make small chunks."""

_FEW = 10
"""A worker that has read less than this part of a chunk, and has nothing in hand, need not hurry to read more."""

_PATIENCE = 5
"""Commits that may be refused one after the other before the worker gives up."""

_INSTEAD = 'mend that, or start with --on-error skip (on_error="skip") to go on without such records'

_RESUMED_WITHIN = 0.01
"""Seconds that a paused worker waits at most before it looks whether it still is."""

_BETWEEN_MEASURES = 0.1
"""Seconds for which other threads get the same numbers."""


class Worker:
    """One member of the group and the tasks it is assigned; all calls but `stop` and `metrics` from one thread.

    `Worker(topology, log="embedded:.streamtopo", on_error="skip").run()` works until it is stopped; the options are
    those of `WorkerConfig`. `address` tells other members where this one answers queries. `open_store` and `now` are
    for tests, which have stores and a clock of their own.
    """

    def __init__(
        self,
        topology: Described | str,
        log: Log | str = DEFAULT,
        open_store: OpenStore | None = None,
        *,
        now: Callable[[], int] = wall_clock,
        config: WorkerConfig | None = None,
        depth_first: bool = False,
        address: str = "",
        **options: Any,
    ) -> None:
        topology = topology_of(topology)
        self.config = config or config_of(**options)
        on_disk = self.config.memory - self.config.at_hand - self.config.cleaning
        open_store = open_store or stores_on_disk(topology.application_id, self.config.state_dir, on_disk)
        self.skipped = 0
        self.begun = False
        """Whether it has had a turn since its group said what it works on."""
        self.stopping = False
        self.paused = False
        """Process nothing, but commit what was done and keep the place in the group; may be set from any thread."""
        self._refused = 0
        self._few = False
        self._held_back = False
        """Whether there may be more to read, of what enough was in hand."""
        self._now = now
        self._journal: list[Entry] = []
        self._rejected: set[str] = set()
        """What was skipped since the last commit."""
        self._pace = Pace(self.config)
        ahead = by_source(topology, self.config.max_ahead)
        settings = Options(
            now,
            self._pace.request,
            self.config.chunk,
            self.config.cache,
            depth_first,
            ahead=ahead,
            clock_set=_clock_set(now),
        )
        with ExitStack() as opened:
            self.log = opened.enter_context(closing(open_log(log))) if isinstance(log, str) else log
            self._join(topology, open_store, settings, address)
            self._opened = opened.pop_all()
            """The log, if it was given as a url; it is closed with the worker."""
        self.member = self._tasks.member
        self._thread = threading.get_ident()
        self._measured, self._measure_at = self._measure(), 0.0

    def _join(self, topology: Topology, open_store: OpenStore, settings: Options, address: str) -> None:
        topics = Topics(topology, self.log, self.config)
        self._globals = Globals(topology, self.log, topics.partitions, settings, self.config)
        settings = settings._replace(global_states=self._globals.states)
        self._purging = Purging(topology, self.log)
        exactly_once = self.config.exactly_once
        self._tasks = Tasks(
            topology, self.log, topics, open_store, settings, address=address, exactly_once=exactly_once
        )

    @property
    def tasks(self) -> dict[TaskId, Task]:
        """Those that are restored and at work."""
        return self._tasks.ready

    @property
    def plan(self) -> Plan:
        return self._tasks.plan

    @property
    def opening(self) -> Mapping[TaskId, Opening]:
        """Those that are being restored."""
        return self._tasks.opening

    # -- for whoever runs it

    def run(self) -> None:
        """Work until `stop`, SIGTERM or Ctrl-C, then commit and leave; a second signal ends the process at once."""
        run(self)

    @property
    def globals(self) -> Globals:
        """The tasks that feed the global stores."""
        return self._globals

    def global_state(self, name: str) -> State:
        """The rows of a global store."""
        return self._globals.states[name]

    def stop(self) -> None:
        """Come to an end after this turn; safe from any thread and from signal handlers."""
        self.stopping = True

    def close(self) -> None:
        """Commit, close and leave: others may take over at once."""
        with self._opened:
            with self._whole_or_not_at_all():
                self._commit_if_needed()
            self._tasks.close()
            self._globals.close()

    def abandon(self) -> None:
        """Close and leave without a commit, after a failure."""
        with self._opened:
            self._drop_all()
            self._tasks.close()
            self._globals.close()

    def metrics(self) -> Metrics:
        """May be called by any thread: all but the worker's own get the numbers of a moment ago."""
        return self._measure() if threading.get_ident() == self._thread else self._measured

    def _measure(self) -> Metrics:
        dropped = Counter(self._tasks.dropped_before)
        for task in self.tasks.values():
            dropped.update(task.dropped)
        return Metrics(
            tuple(str(id) for id in sorted(self.tasks)),
            self._tasks.restoring(),
            self._pace.records,
            self._tasks.lag(),
            self._pace.commits,
            self._pace.commit_ms,
            self.skipped,
            dict(dropped),
            self.paused,
            self._tasks.ahead_before + sum(task.ahead for task in self.tasks.values()),
        )

    # -- one turn

    def run_once(self, timeout: float = 0.0) -> bool:
        """True if anything was read, restored or processed, or a commit was due; then there may be more to do."""
        self._thread = threading.get_ident()
        try:
            with self._whole_or_not_at_all():
                placed = self.member.placed
                worked = self._turn(timeout)
                self.begun = self.begun or placed
                self._tell()
                return worked
        except LogError:
            self._tasks.check_topics()  # that one was deleted says more than that it is not there
            raise

    def _tell(self) -> None:
        """For those who ask from other threads."""
        if time.monotonic() >= self._measure_at:
            self._measured, self._measure_at = self._measure(), time.monotonic() + _BETWEEN_MEASURES

    def _turn(self, timeout: float) -> bool:
        self._tasks.follow_assignment(self._commit_if_needed)
        updated = self._globals.update(self._reject)
        if not self._globals.loaded:
            return True
        restored = self._tasks.restore(self.config.chunk)
        if self._few and not restored:
            self._pace.rest(timeout)
        if self.paused:
            timeout = min(timeout, _RESUMED_WITHIN)
        read = self._read(0.0 if updated or restored or self._pace.undurable or self._in_hand() else timeout)
        worked = not self.paused and self._process() | self._tick() | self._move_on()
        idle = not read and not worked
        self._few = read < self.config.chunk // _FEW and not self._held_back and not self._in_hand()
        due = self._pace.due(caught_up=idle or self._few) or self._caches_full()
        if due:
            self._commit()
        return updated or restored or due or not idle

    def _read(self, timeout: float) -> int:
        """Returns how many records there were; a gap counts as one."""
        limit = self.config.chunk
        inputs = [one for task in self.tasks.values() for one in task.inputs.values()]
        full = {one.partition for one in inputs if self.paused or one.waiting.size >= limit}
        self._held_back = bool(full)
        batches = self.member.poll(_POLL_CHUNKS * limit, timeout, full, self._give_back)
        for batch in batches:
            task = self._tasks.reading(batch.source)
            if task is not None:
                task.add(batch, self._reject)
                self._pace.did(len(batch.offsets))
        return sum(len(batch.offsets) or 1 for batch in batches)

    def _give_back(self, partitions: frozenset[TopicPartition]) -> None:
        """The group takes these away as soon as this is done."""
        self._commit_if_needed()
        self._tasks.close_readers(partitions)

    def _in_hand(self) -> bool:
        """Whether rows were read that wait for their round, and may have it."""
        waiting = (one.waiting.size for task in self.tasks.values() for one in task.inputs.values())
        return not self.paused and any(waiting)

    def _process(self) -> bool:
        """One round of each task that has one; a commit that is due does not wait for the rounds of the others."""
        ends = self.member.ends()
        worked = False
        for id, task in list(self.tasks.items()):
            if self.tasks.get(id) is task and self._process_one(task, ends):
                worked = True
                if self._pace.due(caught_up=False):
                    self._commit()
        return worked

    def _process_one(self, task: Task, ends: Mapping[TopicPartition, int]) -> bool:
        try:
            taken = task.take(ends)
        except StepError:
            self._stop_at_failure()
            raise
        if taken is not None:
            self._do(RoundEntry(task, taken))
        return taken is not None

    def _tick(self) -> bool:
        now = self._now()
        due = [task for task in self.tasks.values() if task.due("wall_clock", now)]
        for task in due:
            self._do(TickEntry(task, now))
        return bool(due)

    def _move_on(self) -> bool:
        """Stream time of tasks that are idle; what waits, for its round or for a commit, comes first."""
        patience = self.config.idle_advance
        if patience <= 0 or self._pace.undurable or self._in_hand():
            return False
        for task in self.tasks.values():
            if (time := task.idling.time_after(task.time, patience)) is not None:
                self._do(IdleEntry(task, time))
        return self._pace.undurable

    def _do(self, entry: Entry) -> None:
        self._journal.append(entry.remembered())
        self._pace.did(0)
        try:
            entry.run(fresh=False)
        except Failure:
            self._find_failure({len(self._journal) - 1})

    # -- when a step raises

    def _find_failure(self, careful: set[int], *, forward_each: bool = False) -> None:
        """Undo to the last commit and do everything again, the entries in `careful` record by record."""
        while True:
            self._roll_back()
            for task in self.tasks.values() if forward_each else ():
                task.forward_each()
            for place, entry in enumerate(self._journal):
                try:
                    if place in careful:
                        entry.run_carefully(self._reject)
                    else:
                        entry.run(fresh=True)
                except Failure:
                    careful.add(place)
                    break
                except StepError:
                    self._stop_at_failure()
                    raise
            else:
                self._pace.request()
                return

    def _roll_back(self) -> None:
        self.member.abort()
        for task in self.tasks.values():
            task.rollback()

    def _reject(self, failure: StepError) -> None:
        if self.config.on_error is OnError.FAIL:
            raise failure.with_hint(_INSTEAD)
        if str(failure) not in self._rejected:  # it fails again each time that its round is done again
            self._rejected.add(str(failure))
            logger.warning("skipped: %s", failure)
            self.skipped += 1

    def _stop_at_failure(self) -> None:
        """The failing record is undone; what was done before it is whole, and is kept if that can be committed."""
        with suppress(Failure, SerdeError):
            self._flush_and_commit()
        self._drop_all()

    # -- commit

    def commit(self) -> bool:
        """True if everything done so far is durable now; if not, it is undone and will be done again."""
        with self._whole_or_not_at_all():
            return self._commit()

    def _commit(self) -> bool:
        try:
            return self._flush_and_commit()
        except (Failure, SerdeError):
            self._find_failure(set(range(len(self._journal))), forward_each=True)
        return self._flush_and_commit()

    def _flush_and_commit(self) -> bool:
        for task in self.tasks.values():
            task.flush()
        with self._pace.committing():
            committed, broken = commit(self.tasks.values(), self.member)
        if committed.outcome is Outcome.DONE:
            self._journal.clear()
            self._rejected.clear()
            self._refused = 0
            self._pace.committed()
            for task in self.tasks.values():
                task.committed()
            self._purging.after_commit(self.tasks.values())
            self._tasks.drop(broken)
            self._trim()
            return True
        logger.warning("commit %s: %s; going back to the last one", committed.outcome.value, committed.reason)
        self._refused += 1
        if self._refused == _PATIENCE:
            raise LogError(f"{committed.reason} (the log refused {_PATIENCE} commits, one after the other)")
        if committed.outcome is Outcome.UNKNOWN:
            self.member.settle()
        self._drop_all()
        return False

    @contextmanager
    def _whole_or_not_at_all(self) -> Iterator[None]:
        """Whatever ends the work half-way, an interrupt even: what was not committed did not happen."""
        try:
            yield
        except BaseException:
            self._drop_all()
            raise

    def _drop_all(self) -> None:
        """Whatever is not committed is forgotten; the tasks begin again from the log."""
        self._tasks.outbox.discard()
        self.member.abort()
        self._journal.clear()
        self._pace.forget()
        self._tasks.drop(self.tasks.values())

    def _commit_if_needed(self) -> None:
        if self._pace.undurable:
            self._commit()

    def _caches_full(self) -> bool:
        """Whether more rows changed since the last commit than the cache is meant to hold back."""
        return sum(state.changed_bytes for state in self._states()) > self.config.cache > 0

    def _trim(self) -> None:
        """Keep the rows that are kept at hand within bounds."""
        if sum(state.kept_bytes for state in self._states()) > max(self.config.cache, self.config.at_hand):
            for state in self._states():
                state.forget_older()

    def _states(self) -> Iterator[State]:
        yield from (state for task in self.tasks.values() for state in task.states.values())
        yield from self._globals.states.values()


def _clock_set(now: Callable[[], int]) -> int:
    """Before which time the wall clock was never set; clocks of tests may begin with 0."""
    if now is not wall_clock:
        return 0
    if now() < CLOCK_SET:
        warn_of_unset_clock(now())
    return CLOCK_SET
