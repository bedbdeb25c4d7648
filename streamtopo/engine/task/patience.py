"""How long a task waits for inputs that are empty, before it takes the rows of the others (`max_task_idle`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from streamtopo.engine.task.inputs import Input
from streamtopo.records import TopicPartition


class Patience:
    """Of one task. It is asked only while rows wait, and the log remembers nothing of it.

    As in Kafka Streams, the time for an input starts when the input is found empty and all of its log has been read.
    When the time is over, the input is not waited for until it has rows again. Rows of it that are left out, and
    marks, do not start the time again: with a mark every second, it would never be over.
    """

    def __init__(self, longest: int, steady_clock: Callable[[], float]) -> None:
        self.waits = False
        """Whether rows wait only for those that may still come to other inputs."""
        self._longest = longest
        self._now = steady_clock
        self._empty_since: dict[TopicPartition, float] = {}

    def ends(self, inputs: Sequence[Input], ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The ends of the inputs. One that is waited for seems to have one more row in its log."""
        if not self._longest or len(inputs) < 2:
            return ends
        now, known = self._now(), {one.partition: ends.get(one.partition, 0) for one in inputs}
        awaited = [one for one in inputs if self._awaited(one, known[one.partition], now)]
        self.waits = any(not one.waiting.size for one in awaited)
        return known | {one.partition: one.fetched + 1 for one in awaited}

    def _awaited(self, one: Input, end: int, now: float) -> bool:
        """Whether rows of others wait for this input now, or will when its own rows are taken."""
        if one.waiting.size:
            self._empty_since.pop(one.partition, None)
            return True
        if end > one.fetched:
            return False  # rows are waited for that are in the log; the time starts after them
        return now - self._empty_since.setdefault(one.partition, now) < self._longest
