"""Notices when all records fail in the same way: then the records are right, and the program is wrong."""

from __future__ import annotations

import logging

from streamtopo.errors import FailedRecord, StepError
from streamtopo.records import TopicPartition

logger = logging.getLogger("streamtopo")

_MANY = 1000
_GAPS = 1.1
"""Offsets have gaps; with more of them, records in between have not failed."""


class Streak:
    """The first failed records of a kind."""

    def __init__(self) -> None:
        self._count = 0
        self._spans: dict[TopicPartition, tuple[int, int]] = {}
        """The first and the last offset in each partition."""

    def note(self, failed: FailedRecord) -> None:
        if self._count == _MANY or failed.topic is None:
            return
        self._count += 1
        partition = TopicPartition(failed.topic, failed.partition)
        first, _ = self._spans.get(partition, (failed.offset, 0))
        self._spans[partition] = first, failed.offset
        between = sum(last - first + 1 for first, last in self._spans.values())
        if self._count == _MANY and between <= _MANY * _GAPS:
            error = StepError(failed, _HELP)
            logger.error("%d records failed in the same way, one after the other: %s", _MANY, error)


_HELP = "if that is not what you expect, stop the worker, fix the step or the type of the topic, and start again"
