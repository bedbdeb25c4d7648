"""Reads the records of a topic page by page: first the existing ones in the order of time, then new ones."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from heapq import merge

from streamtopo.cli.shared.record_json import TopicRecord
from streamtopo.logs import Log
from streamtopo.records import Batch, TopicPartition

Page = list[TopicRecord]
PAGE_SIZE = 500
"""Maximum number of records that are read from a partition, or shown, at once."""
PAGE_BYTES = 4 << 20
"""Maximum size of a page; one larger record is a page of its own."""
POLL_INTERVAL = 0.02
"""Seconds between two checks for new records."""


def read_to_ends(log: Log, partitions: Iterable[TopicPartition], ends: dict[TopicPartition, int]) -> Iterator[Page]:
    """Yield the records before these ends, ordered by timestamp; those of one partition keep their order."""
    parts = [_records(log, partition, ends[partition]) for partition in partitions]
    page, size = Page(), 0
    for record in merge(*parts, key=lambda record: record.timestamp):
        page.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        if len(page) == PAGE_SIZE or size >= PAGE_BYTES:
            yield page
            page, size = Page(), 0
    if page:
        yield page


def follow_from(log: Log, positions: dict[TopicPartition, int]) -> Iterator[Page]:
    """Yield the records from these positions on, without end."""
    while True:
        pages = [page for partition in positions if (page := _next_page(log, partition, positions))]
        yield from pages
        if not pages:
            time.sleep(POLL_INTERVAL)


def limited(pages: Iterable[Page], count: int | None) -> Iterator[Page]:
    """Yield pages with up to this number of records, and do not wait for more."""
    left = count
    for page in pages if left != 0 else ():
        yield page[:left]
        if left is not None and (left := left - len(page)) <= 0:
            return


def _records(log: Log, partition: TopicPartition, end: int) -> Iterator[TopicRecord]:
    position = log.start(partition)
    while position < end:
        batch = log.read(partition, position, min(PAGE_SIZE, end - position), PAGE_BYTES)
        yield from (record for record in _rows(batch) if record.offset < end)
        # Records deleted in the meantime are skipped.
        position = max(batch.next_offset, log.start(partition))


def _next_page(log: Log, partition: TopicPartition, positions: dict[TopicPartition, int]) -> Page:
    if log.end(partition) <= positions[partition]:
        return []
    # Records deleted in the meantime are skipped.
    batch = log.read(partition, max(positions[partition], log.start(partition)), PAGE_SIZE, PAGE_BYTES)
    positions[partition] = batch.next_offset
    return list(_rows(batch))


def _rows(batch: Batch) -> Iterator[TopicRecord]:
    keys, values, timestamps, headers = batch.columns
    for place, offset in enumerate(batch.offsets):
        carried = headers[place] if headers is not None else ()
        yield TopicRecord(batch.source.partition, offset, keys[place], values[place], timestamps[place], carried)
