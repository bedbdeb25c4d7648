"""Committed rows of the tasks of this process, as bytes, for any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from streamtopo.engine.task import Task, TaskId
from streamtopo.engine.worker import Worker
from streamtopo.errors import StoreError
from streamtopo.hosting.answers import NotOwner, Restoring
from streamtopo.hosting.spans import Place, Rows, Span, Times, rows_in
from streamtopo.stores.layout import prefix_of


class Committed:
    """Never waits for the engine's thread: RocksDB can be read from others, and a commit is there whole or not at all.

    A task may be closed at any moment; then the answer is the same as if it had been closed before.
    """

    def __init__(self, workers: Callable[[], Sequence[Worker]]) -> None:
        self._workers = workers

    def get(self, place: Place, key: bytes) -> bytes | None:
        """The row of a key; if its own task has none, that of another task of the subtopology that is here.

        Processors may put keys of their own making into whichever task is theirs. Not if a place is `alone`.
        """
        row = self._row(place, key)
        if row is None and not place.alone:
            for task in self._tasks_beside(place.task):
                with suppress(NotOwner, Restoring):
                    row = self._row(Place(place.store, task), key)
                if row is not None:
                    break
        return row

    def scan(self, place: Place, span: Span) -> Rows:
        """All rows as they were when this was called; to be read to the end, or closed, soon."""
        task = self._task(place)
        with self._open(place, task):
            snapshot = task.store.snapshot()
            reader = snapshot.__enter__()
        # Taken after the snapshot, so that no row of it is later.
        times = Times(task.committed_time_of(place.store), task.latest_of(place.store))

        def rows() -> Rows:
            try:
                with self._open(place, task):
                    yield from rows_in(reader, task.states[place.store].spec, span, times)
            finally:
                snapshot.__exit__(None, None, None)

        return rows()

    def time(self, place: Place) -> int:
        """The latest time of the store's rows as of the last commit."""
        return self._task(place).committed_time_of(place.store)

    def tasks(self) -> list[tuple[list[TaskId], list[TaskId]]]:
        """Of each worker those that are at work, and those that are being restored."""
        return [(list(worker.tasks), list(worker.opening)) for worker in self._workers()]

    def _row(self, place: Place, key: bytes) -> bytes | None:
        task = self._task(place)
        try:
            return task.store.get_many([prefix_of(place.store) + key])[0]
        except StoreError:
            self._check(place, task)
            raise

    @contextmanager
    def _open(self, place: Place, task: Task) -> Iterator[None]:
        try:
            yield
        except StoreError:
            self._check(place, task)
            raise

    def _check(self, place: Place, task: Task) -> None:
        """That a store could not be read is no error of its own if the task was closed meanwhile."""
        if self._task(place) is not task:
            raise Restoring(place.store, place.task.partition)

    def _task(self, place: Place) -> Task:
        workers = self._workers()
        for worker in workers:
            if (task := worker.tasks.get(place.task)) is not None:
                return task
            if (task := worker.globals.tasks.get(place.task)) is not None:
                if not worker.globals.loaded:
                    raise Restoring(place.store, place.task.partition, *worker.globals.progress(task))
                return task
        for worker in workers:
            if (opening := worker.opening.get(place.task)) is not None:
                done = [one.next - one.start for one in opening.stores if one.spec.name == place.store]
                total = [one.end - one.start for one in opening.stores if one.spec.name == place.store]
                raise Restoring(place.store, place.task.partition, sum(done), sum(total))
        raise NotOwner(place.store, place.task.partition)

    def _tasks_beside(self, task: TaskId) -> list[TaskId]:
        tasks = [one for worker in self._workers() for one in list(worker.tasks)]
        return [one for one in tasks if one.subtopology == task.subtopology and one != task]
