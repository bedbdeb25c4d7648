"""The schedule of a Cluster: which worker has the next turn, how the clock moves, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from math import log10
from random import Random

from streamtopo.errors import CommitsRefused
from streamtopo.settings.durations import milliseconds
from streamtopo.testing.agenda import Agenda
from streamtopo.testing.faults import Faults
from streamtopo.testing.machines import Machines
from streamtopo.testing.processes import Killed, Process, Stage

_TICKS = (0, 0, 0, 1, 3, 20, 100)
"""By how many milliseconds the clock moves after a turn."""
_IDLE = 2
"""A worker that had nothing to do this many times in a row has nothing to do until something changes."""
_DURABLE_STEPS = 6
"""A crash or a pause comes before one of the first durable steps, this many, or after the turn if there are fewer."""
_FIRST_WAIT, _LONGEST_WAIT = 50, 3_600_000
"""The most milliseconds by which the clock moves while nobody has anything to do: at first, and at last."""
_EXTRA = 100
"""The number of the first machine that joins besides those that are there from the start."""


class Schedule:
    def __init__(self, machines: Machines, agenda: Agenda, stage: Stage, faults: Faults) -> None:
        self.steps = 0
        """The number of steps of all workers."""
        self.events: list[str] = []
        """The faults, in plain words."""
        self._faults_left = 0
        self._machines = machines
        self._agenda = agenda
        self._stage = stage
        self._random: Random = stage.random
        self._faults = faults
        self._kinds: dict[Callable[[Process], None], float] = {
            self._crash: faults.crash,
            self._pause: faults.pause,
            self._leave: faults.leave,
            self._join: faults.join,
            self._evict: faults.evict,
            self._lose_answer: faults.lost_answer,
        }
        self._wait = _FIRST_WAIT
        self._joined = 0

    def begin(self) -> None:
        """A new run begins: some runs have no faults, others many."""
        self._faults_left = self._random.randint(0, self._faults.most)

    def turn(self) -> bool:
        """One worker has its turn, or the clock moves. False if nothing is left to do."""
        ready = [process for process in self._machines.processes if process.ready and process.idle < _IDLE]
        busy = bool(self._agenda) or bool(self._machines.unfinished())
        if not ready:
            return self._move_on(busy=busy)
        self.steps += 1
        process = self._random.choice(ready)
        if busy and self._faults_left and self._random.random() < sum(self._kinds.values()):
            self._faults_left -= 1
            self._random.choices([*self._kinds], [*self._kinds.values()])[0](process)
        elif self._run(process):
            self._wait = _FIRST_WAIT
            self._wake()
        else:
            process.idle += 1
        if busy:
            self._move_to(self._agenda.now + self._random.choice(_TICKS))
        return True

    def _run(self, process: Process) -> bool:
        before, self._stage.process = self._stage.process, process
        process.in_turn = True
        try:
            return process.worker.run_once()
        except CommitsRefused:
            self._end(process)
            return True
        finally:
            self._stage.process = before
            process.in_turn = False

    def _end(self, process: Process) -> None:
        """A worker ends after too many refused commits, and something starts it again."""
        process.worker.abandon()
        self._tell(process, "ended, because too many of its commits were refused")
        self._machines.forget(process)
        self._back(process.machine)

    def _move_on(self, *, busy: bool) -> bool:
        """Nobody has anything to do at this moment."""
        if not busy and self._machines.settled():
            return False
        time, self._wait = self._agenda.now + self._random.randint(1, self._wait), min(self._wait * 8, _LONGEST_WAIT)
        self._move_to(time if self._agenda.next is None else min(time, self._agenda.next))
        self._wake()
        return True

    def _move_to(self, time: int) -> None:
        if self._agenda.move_to(time):
            self._wake()

    def _wake(self) -> None:
        for process in self._machines.processes:
            process.idle = 0

    # -- faults

    def _crash(self, process: Process) -> None:
        process.after(self._random.randrange(_DURABLE_STEPS), process.kill)
        try:
            self._run(process)
        except Killed:
            self._tell(process, "was killed in its turn")
        else:
            if not process.alive:
                return
            self._tell(process, "was killed after its turn")
        self._machines.forget(process)
        self._later(self._random.choice((0, milliseconds(self._faults.session))), process.member.evict)
        if self._random.random() < self._faults.lost_disk:
            self._tell(process, "lost its disk")
            self._machines.lose_disk(process.machine)
        self._back(process.machine)

    def _pause(self, process: Process) -> None:
        process.after(self._random.randrange(_DURABLE_STEPS), lambda: self._stop(process, "in"))
        self._run(process)
        if process.alive and process.counting:
            self._stop(process, "after")

    def _stop(self, process: Process, when: str) -> None:
        """The others go on meanwhile."""
        duration, session = self._duration(), milliseconds(self._faults.session)
        process.after(-1, process.kill)
        process.paused = True
        self._tell(process, f"stopped for {duration} ms {when} its turn")
        if duration > session:
            self._later(session, process.member.evict)
        self._later(duration, lambda: self._resume(process))
        while process.in_turn and process.paused:
            self.turn()

    def _resume(self, process: Process) -> None:
        process.paused = False

    def _leave(self, process: Process) -> None:
        self._tell(process, "left")
        self._machines.leave(process)
        self._back(process.machine)

    def _join(self, _: Process) -> None:
        self._joined += 1
        joined = self._machines.start(_EXTRA + self._joined)
        self._tell(joined, "joined")
        self._later(self._duration(), lambda: self._go(joined))

    def _go(self, process: Process) -> None:
        """A worker that joined leaves again, if it can."""
        if not process.alive:
            return
        if not process.ready:
            self._later(self._duration(), lambda: self._go(process))
            return
        self._tell(process, "left again")
        self._machines.leave(process)

    def _evict(self, process: Process) -> None:
        self._tell(process, "was declared dead, but is alive")
        process.member.evict()

    def _lose_answer(self, process: Process) -> None:
        self._tell(process, "will get no answer to its next commit")
        process.answer_lost = True

    def _back(self, machine: int) -> None:
        if machine < _EXTRA:
            self._later(self._duration(), lambda: self._machines.start(machine))

    def _duration(self) -> int:
        """As often a short as a long one."""
        return round(10 ** self._random.uniform(0, log10(milliseconds(self._faults.longest))))

    def _later(self, wait: int, action: Callable[[], object]) -> None:
        self._agenda.add(self._agenda.now + wait, action)

    def _tell(self, process: Process, what: str) -> None:
        self.events.append(f"{self._agenda.now} ms, step {self.steps}: worker {process.machine} {what}")
