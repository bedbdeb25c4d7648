"""The order in which things become durable. All guarantees of the engine depend on this one function."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from streamtopo.engine.failures.left_out import LeftOut
from streamtopo.engine.task.task import Task, TaskChanges
from streamtopo.logs import CommitResult, Member, Outcome
from streamtopo.records import Columns, TopicPartition

logger = logging.getLogger("streamtopo")

OutputsFor = Callable[[Sequence[LeftOut]], Iterable[tuple[TopicPartition, Columns]]]
"""What is written about records that failed: their dead letters."""
Marks = Callable[[], Iterable[tuple[TopicPartition, Columns]]]


def commit(
    tasks: Iterable[Task], member: Member, outputs_for: OutputsFor, marks: Marks
) -> tuple[CommitResult, list[Task]]:
    """Make what these tasks did since the last commit durable; returns the outcome and the tasks it broke.

    1. Announce the input positions, take the changes of every store, and send their changelog records after the
       outputs that were sent before; then the dead letters of records that failed; and at last the
       marks, in which tasks announce which time they have reached to the tasks that read their outputs.
    2. Commit outputs, changelogs and input positions to the log, in one transaction.
    3. Write each task's changes to its store, in one batch with the changelog offsets inside.

    Nothing is written to a store unless the log has it. After a crash, or a failed write, between 2 and 3, the store
    lacks the last changes, but is never wrong: such a task is broken, nothing more is written to its store, and
    restoring it from the changelog repairs it.
    """
    tasks = list(tasks)
    positions = {partition: position for task in tasks for partition, position in task.progress.positions().items()}
    member.announce(positions)
    taken = [(task, task.take_changes()) for task in tasks]
    for task, changes in taken:
        for store, logged in changes.changelogs.items():
            for columns in logged:
                member.send(task.changelog(store), columns)
    if rejected := [failed for _, changes in taken for failed in changes.rejected]:
        for target, columns in outputs_for(rejected):
            member.send(target, columns)
    for target, columns in marks():
        member.send(target, columns)
    outcome = member.commit(positions)
    if outcome.outcome is not Outcome.DONE:
        return outcome, []
    return outcome, [task for task, changes in taken if not _written(task, changes, outcome.ends)]


def _written(task: Task, changes: TaskChanges, ends: Mapping[TopicPartition, int]) -> bool:
    try:
        task.write(changes, ends)
    except Exception:
        logger.exception("task %s: the store could not be written; it is restored from its changelog", task.id)
        return False
    return True
