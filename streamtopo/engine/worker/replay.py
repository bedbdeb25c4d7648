"""What was done since the last commit. If a step fails, it is undone and repeated, to find the failing record."""

from __future__ import annotations

from streamtopo.engine.assignment.tasks import Tasks
from streamtopo.engine.program.stations import Failure
from streamtopo.engine.task.entries import Entry
from streamtopo.engine.task.inputs import Reject
from streamtopo.engine.worker.pace import Pace


class Replay:
    def __init__(self, tasks: Tasks, reject: Reject, pace: Pace) -> None:
        self._tasks = tasks
        self._reject = reject
        self._pace = pace
        self._entries: list[Entry] = []

    def do(self, entry: Entry) -> None:
        """StepError if the policy stops at a record; everything before that record is done then."""
        self._entries.append(entry.remembered())
        self._pace.did(0)
        try:
            entry.run(fresh=False)
        except Failure:
            self._do_again({len(self._entries) - 1})

    def do_all_carefully(self) -> None:
        """A failure showed only when caches were flushed, or when changes of stores were taken."""
        self._do_again(set(range(len(self._entries))), forward_each=True)

    def clear(self) -> None:
        self._entries.clear()

    def _do_again(self, careful: set[int], *, forward_each: bool = False) -> None:
        """Go back to the last commit and repeat everything, the entries in `careful` record by record."""
        while (failed := self._first_failure(careful, forward_each)) is not None:
            careful.add(failed)
        for task in self._tasks.ready.values():
            task.pass_left_out()
        self._pace.request()

    def _first_failure(self, careful: set[int], forward_each: bool) -> int | None:
        self._roll_back(hold_back=not forward_each)
        for place, entry in enumerate(self._entries):
            try:
                if place in careful:
                    entry.run_carefully(self._reject)
                else:
                    entry.run(fresh=True)
            except Failure:
                return place
        return None

    def _roll_back(self, *, hold_back: bool) -> None:
        self._tasks.member.abort()
        for task in self._tasks.ready.values():
            task.rollback(hold_back=hold_back)
