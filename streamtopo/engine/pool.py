"""N worker processes from one command: they share the work, those that die are replaced, all stop together."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from streamtopo.config import WorkerConfig
from streamtopo.engine.child import Child, Command, how_it_ended
from streamtopo.engine.metrics import Metrics, together
from streamtopo.errors import StreamtopoError

_TURN = 0.1
"""Seconds without news after which the pool looks at clocks and signals all the same."""
_SOON = 5.0
"""A process that dies within so many seconds, and did nothing until then, is started again later and later."""
_DELAYS = (0.0, 0.1, 0.3, 1.0, 2.0)
"""Seconds to wait after each such death; after one more the pool gives up."""
_GRACE = 5.0
"""Seconds that a process gets to end itself, after those that its last commit may take, before it is killed."""


class PoolError(StreamtopoError):
    """A process failed, and its pool with it; the text is all that is to be said, a traceback included."""


@dataclass
class _Place:
    """One of the N."""

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
    """All calls but `stop` from one thread; `wanted` and `paused` may be set from any.

    `environment` is added to the process's own. After `stop` a process has `within` seconds for its last commit.
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
        """Whether the processes are to process nothing, but to keep their tasks."""
        self._places: list[_Place] = []
        self._past: list[Metrics] = []
        self._selector = selectors.DefaultSelector()
        self._stopping = False
        self._told = False
        self._failure: str | None = None

    def stop(self) -> None:
        """Let every process commit and end; safe from signal handlers."""
        self._stopping = True

    @property
    def settled(self) -> bool:
        """Whether there are as many processes as are wanted, and all have said how they are."""
        heard = [place.child is not None and place.child.heard.metrics is not None for place in self._places]
        return len(heard) == self.wanted and all(heard)

    def metrics(self) -> Metrics:
        living = [place.child.heard.metrics for place in self._places if place.child]
        known = together([one for one in living if one] + self._past)
        return known if all(living) else known._replace(lag=None)

    def run(self, *, each_turn: Callable[[], object] = lambda: None) -> None:
        """Until `stop`. If a process fails, the others commit, and PoolError tells why."""
        with self._selector:
            try:
                while self._at_work():
                    self._follow_wishes()
                    for key, _ in self._selector.select(_TURN):
                        key.data()
                    self._look_after()
                    if not self._stopping:
                        each_turn()
            finally:
                for child in self._living():
                    child.kill()
        if self._failure is not None:
            raise PoolError(self._failure)

    def _at_work(self) -> bool:
        if self._stopping and not self._told:
            self._told = True
            self._kill_at = time.monotonic() + self._within + _GRACE
            for child in self._living():
                child.terminate()
        if time.monotonic() > self._kill_at:
            self._fail(f"Error: worker processes did not end within {self._within:g} s of the signal, and were killed")
            return False  # `run` kills them
        return bool(self._living()) or not self._stopping

    def _living(self) -> list[Child]:
        return [place.child for place in self._places if place.child]

    def _follow_wishes(self) -> None:
        if self._stopping:
            return
        while len(self._places) < self.wanted:
            self._places.append(_Place(len(self._places) + 1))
        for place in self._places[self.wanted :]:
            place.leave()
        self._places = [place for place in self._places if not place.left]
        for place in self._places[: self.wanted]:
            if place.child is None and time.monotonic() >= place.start_at:
                place.child = Child(self._command, self._environment, self._selector, self._say)
            if place.child is not None:
                place.child.pause(self.paused)

    def _look_after(self) -> None:
        for place in self._places:
            if place.child is not None and place.child.ended:
                child, place.child = place.child, None
                code = child.bury()
                if child.heard.metrics:
                    self._past = [together([*self._past, child.heard.metrics.ended()])]
                if code > 0:
                    self._fail(child.heard.failure or _ended(f"{self._name(place)} ended with exit code {code}", child))
                elif not self._stopping and not place.leaving:
                    self._replace(place, child, how_it_ended(code))

    def _replace(self, place: _Place, child: Child, how: str) -> None:
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

    def _name(self, place: _Place) -> str:
        return f"worker process {place.number} of {len(self._places)}"

    def _fail(self, message: str) -> None:
        """Only the first one counts: what one failed at is handed to the others, who fail at it too."""
        self._failure = self._failure or message
        self._stopping = True


def _ended(what: str, child: Child) -> str:
    words = "\n".join(f"  {line}" for line in child.last_words)
    said = f"; the last that it wrote:\n{words}" if words else "; it wrote nothing to standard error"
    return f"Error: {what}{said}"
