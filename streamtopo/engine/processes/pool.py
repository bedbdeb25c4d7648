"""Several worker processes from one command: they share the work, are replaced if they die, and stop together."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from streamtopo.engine.metrics import Metrics, together
from streamtopo.engine.processes.child import Child, Command, how_it_ended
from streamtopo.errors import StreamtopoError
from streamtopo.settings.config import WorkerConfig

_TURN = 0.1
"""Seconds: without reports the pool still checks clocks and signals this often."""
_SOON = 5.0
"""If a process dies within this many seconds without having done anything, the pool waits before the next start."""
_DELAYS = (0.0, 0.1, 0.3, 1.0, 2.0)
"""Seconds to wait after each such death; after one more, the pool gives up."""
_GRACE = 5.0
"""Seconds that a process has to end, after the time for its last commit, before it is killed."""


class PoolError(StreamtopoError):
    """A process failed, so the pool ended. The text is the complete report, including a traceback."""


@dataclass
class _ProcessSlot:
    """A place for a process."""

    number: int
    child: Child | None = None
    deaths: int = 0
    start_at: float = 0.0
    leaving: bool = False

    def leave(self) -> None:
        if self.child is not None and not self.leaving:
            self.child.terminate()
        self.leaving = True

    @property
    def left(self) -> bool:
        return self.leaving and self.child is None


class Pool:
    """Only `stop` may be called by any thread, and `wanted` and `paused` may be set by any thread.

    `environment` is added to the environment of this process. After `stop`, each process has `within` seconds for its
    last commit.
    """

    def __init__(
        self,
        command: Command,
        processes: int,
        say: Callable[[str], object],
        environment: Mapping[str, str] = MappingProxyType({}),
        within: float = WorkerConfig.close_timeout / 1000,
    ) -> None:
        self._command = command
        self._environment = environment
        self._say = say
        self._within = within
        self._kill_at = inf
        self.wanted = processes
        self.paused = False
        """Whether the processes should process nothing, but keep their tasks."""
        self._places: list[_ProcessSlot] = []
        self._past: list[Metrics] = []
        self._selector = selectors.DefaultSelector()
        self._stopping = False
        self._terminated = False
        self._failure: str | None = None

    def stop(self) -> None:
        """Let every process commit and end; may be called by signal handlers."""
        self._stopping = True

    @property
    def settled(self) -> bool:
        """Whether there are as many processes as wanted, and all have reported."""
        heard = [place.child is not None and place.child.reports.metrics is not None for place in self._places]
        return len(heard) == self.wanted and all(heard)

    def metrics(self) -> Metrics:
        living = [place.child.reports.metrics for place in self._places if place.child]
        known = together([one for one in living if one] + self._past)
        return known if all(living) else known._replace(lag=None)

    def run(self, *, each_turn: Callable[[], object] = lambda: None) -> None:
        """Run until `stop`. If a process fails, the others commit, and PoolError says why."""
        with self._selector:
            try:
                while self._at_work():
                    self._start_and_stop()
                    for key, _ in self._selector.select(_TURN):
                        key.data()
                    self._replace_dead()
                    if not self._stopping:
                        each_turn()
            finally:
                for child in self._living():
                    child.kill()
        if self._failure is not None:
            raise PoolError(self._failure)

    def _at_work(self) -> bool:
        if self._stopping and not self._terminated:
            self._terminated = True
            self._kill_at = time.monotonic() + self._within + _GRACE
            for child in self._living():
                child.terminate()
        if time.monotonic() > self._kill_at:
            self._fail(f"Error: worker processes did not end within {self._within:g} s of the signal, and were killed")
            return False  # `run` kills them
        return bool(self._living()) or not self._stopping

    def _living(self) -> list[Child]:
        return [place.child for place in self._places if place.child]

    def _start_and_stop(self) -> None:
        if self._stopping:
            return
        while len(self._places) < self.wanted:
            self._places.append(_ProcessSlot(len(self._places) + 1))
        for place in self._places[self.wanted :]:
            place.leave()
        self._places = [place for place in self._places if not place.left]
        for place in self._places[: self.wanted]:
            if place.child is None and time.monotonic() >= place.start_at:
                place.child = Child(self._command, self._environment, self._selector, self._say)
            if place.child is not None:
                place.child.pause(self.paused)

    def _replace_dead(self) -> None:
        for place in self._places:
            if place.child is not None and place.child.ended:
                child, place.child = place.child, None
                code = child.reap()
                if child.reports.metrics:
                    self._past = [together([*self._past, child.reports.metrics.ended()])]
                if code > 0:
                    self._fail(
                        child.reports.failure or _ended(f"{self._name(place)} ended with exit code {code}", child)
                    )
                elif not self._stopping and not place.leaving:
                    self._replace(place, child, how_it_ended(code))

    def _replace(self, place: _ProcessSlot, child: Child, how: str) -> None:
        quick = not child.worked and time.monotonic() - child.started < _SOON
        place.deaths = place.deaths + 1 if quick else 0
        if place.deaths > len(_DELAYS):
            times = f"{self._name(place)} died {place.deaths} times before it had done anything"
            self._fail(_ended(f"{times}, the last time {how}", child))
            return
        delay = _DELAYS[place.deaths - 1] if quick else 0.0
        place.start_at = time.monotonic() + delay
        later = f" in {delay:g} seconds" if delay else ""
        self._say(f"{self._name(place)} is gone ({how}); another one takes its place{later}")

    def _name(self, place: _ProcessSlot) -> str:
        return f"worker process {place.number} of {len(self._places)}"

    def _fail(self, message: str) -> None:
        """Only the first failure counts: others take over the same work and fail too."""
        self._failure = self._failure or message
        self._stopping = True


def _ended(what: str, child: Child) -> str:
    words = "\n".join(f"  {line}" for line in child.last_lines)
    said = f"; the last that it wrote:\n{words}" if words else "; it wrote nothing to standard error"
    return f"Error: {what}{said}"
