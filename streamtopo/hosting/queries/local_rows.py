"""The committed rows of the tasks of this process, as bytes, for any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from streamtopo.engine.task.options import TaskId
from streamtopo.engine.task.task import Task
from streamtopo.engine.worker.worker import Worker
from streamtopo.errors import StoreError
from streamtopo.hosting.answers import NotOwner, Restoring
from streamtopo.hosting.queries.scanning import RowIterator, ScanBounds, StorePart, StoreTimes, rows_in
from streamtopo.stores.rows.layout import prefix_of


class LocalRows:
    """Never waits for the engine's thread: RocksDB can be read from any thread, and commits are atomic.

    A task may be closed at any moment; then the answer is the same as if it had been closed before.
    """

    def __init__(self, workers: Callable[[], Sequence[Worker]]) -> None:
        self._workers = workers

    def get(self, part: StorePart, key: bytes) -> bytes | None:
        """Return the row of a key. Unless `only_here`, other tasks of the subtopology are searched, too.

        Processors may put any key into the store of their own task.
        """
        row = self._row(part, key)
        if row is None and not part.only_here:
            for task in self._sibling_tasks(part.task):
                with suppress(NotOwner, Restoring):
                    row = self._row(StorePart(part.store, task), key)
                if row is not None:
                    break
        return row

    def scan(self, part: StorePart, bounds: ScanBounds) -> RowIterator:
        """Return all rows as of the moment of the call. Read them to the end, or close the iterator, soon."""
        task = self._task(part)
        with self._open(part, task):
            snapshot = task.store.snapshot()
            reader = snapshot.__enter__()
        # Read after the snapshot, so that no row in it is later.
        progress = task.progress
        times = StoreTimes(progress.committed.time_of(part.store), progress.written.latest_of(part.store))

        def rows() -> RowIterator:
            try:
                with self._open(part, task):
                    yield from rows_in(reader, task.states[part.store].spec, bounds, times)
            finally:
                snapshot.__exit__(None, None, None)

        return rows()

    def time(self, part: StorePart) -> int:
        """Return the latest time of the store's rows as of the last commit."""
        return self._task(part).progress.committed.time_of(part.store)

    def tasks(self) -> list[tuple[list[TaskId], list[TaskId]]]:
        """Return the running tasks and the tasks being restored, for each worker."""
        return [(list(worker.tasks), list(worker.opening)) for worker in self._workers()]

    def _row(self, part: StorePart, key: bytes) -> bytes | None:
        task = self._task(part)
        try:
            return task.store.get_many([prefix_of(part.store) + key])[0]
        except StoreError:
            self._check(part, task)
            raise

    @contextmanager
    def _open(self, part: StorePart, task: Task) -> Iterator[None]:
        try:
            yield
        except StoreError:
            self._check(part, task)
            raise

    def _check(self, part: StorePart, task: Task) -> None:
        """After a read error, raise `Restoring` instead if the task was closed in the meantime."""
        if self._task(part) is not task:
            raise Restoring(part.store, part.task.partition)

    def _task(self, part: StorePart) -> Task:
        workers = self._workers()
        for worker in workers:
            if (task := worker.tasks.get(part.task)) is not None:
                return task
            if (task := worker.globals.tasks.get(part.task)) is not None:
                if not worker.globals.loaded:
                    raise Restoring(part.store, part.task.partition, *worker.globals.progress(task))
                return task
        for worker in workers:
            if (opening := worker.opening.get(part.task)) is not None:
                done = [one.next - one.start for one in opening.stores if one.spec.name == part.store]
                total = [one.end - one.start for one in opening.stores if one.spec.name == part.store]
                raise Restoring(part.store, part.task.partition, sum(done), sum(total))
        raise NotOwner(part.store, part.task.partition)

    def _sibling_tasks(self, task: TaskId) -> list[TaskId]:
        tasks = [one for worker in self._workers() for one in list(worker.tasks)]
        return [one for one in tasks if one.subtopology == task.subtopology and one != task]
