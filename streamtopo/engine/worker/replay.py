"""What was done since the last commit. If a step fails, it is undone and repeated, to find the failing record."""

from __future__ import annotations

from streamtopo.engine.assignment.tasks import Tasks
from streamtopo.engine.failures.left_out import Reject
from streamtopo.engine.program.stations import Failure
from streamtopo.engine.task.entries import Entry, Halt, Nothing, RoundEntry, put_back
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
        if entry.task.setbacks.retrying or entry.task.setbacks.undone:
            self._do_carefully(entry)
        elif (failed := _failed(entry, self._reject)) is not None:
            # Outside of the handler of the error: what the user's functions raise now has no other cause.
            setbacks, place = entry.task.setbacks, len(self._entries) - 1
            first = not setbacks.expected and failed in entry.task.program.leaving_out
            setbacks.expect(undone=not first)
            self._do_again(set() if first else {place})

    def _do_carefully(self, entry: Entry) -> None:
        """No repetition is needed if it fails."""
        if (halt := entry.run_carefully(self._reject)) is not None:
            self._put_back(len(self._entries) - 1, halt)

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
                if place not in careful:
                    entry.run(self._reject, fresh=True)
                elif (halt := entry.run_carefully(self._reject)) is not None:
                    self._put_back(place, halt)
            except Failure:
                return place
        return None

    def _put_back(self, place: int, halt: Halt) -> None:
        """This entry has to wait in the middle. What its task did after it comes again later, too."""
        task = self._entries[place].task
        rounds = [halt.rest]
        for later in range(place + 1, len(self._entries)):
            entry = self._entries[later]
            if entry.task is task:
                rounds += [entry.round] if isinstance(entry, RoundEntry) else []
                self._entries[later] = Nothing(task)
        self._entries[place] = Nothing(task) if halt.done is None else RoundEntry(task, halt.done)
        put_back(task, rounds, halt.again)

    def _roll_back(self, *, hold_back: bool) -> None:
        self._tasks.member.abort()
        for task in self._tasks.ready.values():
            task.rollback(hold_back=hold_back)


def _failed(entry: Entry, reject: Reject) -> str | None:
    """Run it for the first time; if a node fails, return its name."""
    try:
        entry.run(reject, fresh=False)
        return None
    except Failure as failure:
        return failure.node
