"""Records read ahead are returned in order, as many as requested, however they arrived."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from streamtopo.logs.kafka.read_ahead import ReadAhead, together
from streamtopo.records import Batch, Columns, Headers, TopicPartition

SOURCE = TopicPartition("t", 0)
Record = tuple[int, bytes | None, Headers]
"""Offset, value and headers."""

RECORDS = st.lists(
    st.tuples(st.integers(1, 3), st.none() | st.binary(max_size=5), st.sampled_from([(), (("a", b"1"),)])), max_size=30
)
REQUESTS = st.lists(st.tuples(st.integers(1, 12), st.just(float("inf")) | st.integers(1, 20)), max_size=20)


@example([(1, b"12345", ()), (1, None, ())], [2], [(2, 5)])  # nothing after the record that fills the limit
@given(RECORDS, st.lists(st.integers(1, 7), min_size=1), REQUESTS)
def test_records_added_in_batches_are_taken_as_requested(
    gaps: list[Record], sizes: list[int], requests: list[tuple[int, float]]
) -> None:
    waiting: list[Record] = []
    for gap, value, headers in gaps:
        waiting.append((gap + (waiting[-1][0] if waiting else 0), value, headers))
    ahead, added = ReadAhead(), 0
    while added < len(waiting):
        size = sizes[added % len(sizes)]
        ahead.add(batch(waiting[added : added + size]))
        added += size
    for limit, most_bytes in requests:
        expected = waiting[: _count(waiting, limit, most_bytes)]
        del waiting[: len(expected)]
        taken = ahead.take(limit, most_bytes)
        assert [record for one in taken for record in records(one)] == expected
        assert (ahead.records, ahead.bytes) == (len(waiting), sum(len(value or b"") for _, value, _ in waiting))
        if taken:
            assert taken[-1].next_offset == expected[-1][0] + 1
            assert records(together(taken, 99)) == expected
            assert together(taken, 99).next_offset == 99


def _count(waiting: list[Record], limit: int, most_bytes: float) -> int:
    """Include the record that reaches the limit of bytes."""
    size = 0.0
    for place, (_, value, _) in enumerate(waiting[:limit]):
        size += len(value or b"")
        if size >= most_bytes:
            return place + 1
    return min(limit, len(waiting))


def batch(some: list[Record]) -> Batch:
    offsets, values, headers = ([*column] for column in zip(*some, strict=True))
    headed = [*headers] if any(headers) else None
    gapless = offsets == list(range(offsets[0], offsets[-1] + 1))
    columns = Columns([b"k%d" % offset for offset in offsets], values, offsets, headed)
    return Batch(SOURCE, columns, range(offsets[0], offsets[-1] + 1) if gapless else offsets, offsets[-1] + 1)


def records(one: Batch) -> list[Record]:
    keys, values, times, headers = one.columns
    assert keys == [b"k%d" % offset for offset in one.offsets]
    assert times == [*one.offsets]
    return list(zip(one.offsets, values, headers or [()] * len(values), strict=True))
