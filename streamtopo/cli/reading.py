"""Records of a topic for people: everything up to now in the order of time, then what comes, page by page."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from heapq import merge

from streamtopo.cli.record_json import Record
from streamtopo.logs import Log
from streamtopo.records import Batch, TopicPartition

Page = list[Record]
PAGE = 500
"""Records read from a partition, or shown, at once; fewer where they are large:"""
PAGE_BYTES = 4 << 20
PAUSE = 0.02
"""Seconds between two looks for news."""


def everything(log: Log, partitions: Iterable[TopicPartition], ends: dict[TopicPartition, int]) -> Iterator[Page]:
    """What is before these ends; by timestamp, except that the records of a partition keep their order."""
    parts = [_records(log, partition, ends[partition]) for partition in partitions]
    page, size = Page(), 0
    for record in merge(*parts, key=lambda record: record.timestamp):
        page.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        if len(page) == PAGE or size >= PAGE_BYTES:
            yield page
            page, size = Page(), 0
    if page:
        yield page


def news(log: Log, positions: dict[TopicPartition, int]) -> Iterator[Page]:
    """What comes from these positions on, for ever."""
    while True:
        pages = [page for partition in positions if (page := _next_page(log, partition, positions))]
        yield from pages
        if not pages:
            time.sleep(PAUSE)


def first(pages: Iterable[Page], count: int | None) -> Iterator[Page]:
    """The pages up to this number of records; what comes after is not even waited for."""
    left = count
    for page in pages if left != 0 else ():
        yield page[:left]
        if left is not None and (left := left - len(page)) <= 0:
            return


def _records(log: Log, partition: TopicPartition, end: int) -> Iterator[Record]:
    position = log.start(partition)
    while position < end:
        batch = log.read(partition, position, min(PAGE, end - position), PAGE_BYTES)
        yield from (record for record in _rows(batch) if record.offset < end)
        # What was deleted in the meantime cannot be read any more.
        position = max(batch.next_offset, log.start(partition))


def _next_page(log: Log, partition: TopicPartition, positions: dict[TopicPartition, int]) -> Page:
    if log.end(partition) <= positions[partition]:
        return []
    # What was deleted in the meantime cannot be read any more.
    batch = log.read(partition, max(positions[partition], log.start(partition)), PAGE, PAGE_BYTES)
    positions[partition] = batch.next_offset
    return list(_rows(batch))


def _rows(batch: Batch) -> Iterator[Record]:
    keys, values, timestamps, headers = batch.columns
    for place, offset in enumerate(batch.offsets):
        carried = headers[place] if headers is not None else ()
        yield Record(batch.source.partition, offset, keys[place], values[place], timestamps[place], carried)
