"""The data source: every record once, in Spark's columns, whatever is stored in the log."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from streamtopo.errors import LogError
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog, arrow_log
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark.source.options import asked
from streamtopo.spark.source.slices import pieces
from tests.logs.records import T0, T1, keyed, numbered, rows
from tests.spark.conftest import Read


def test_a_record_has_the_columns_of_sparks_kafka_source(log: EmbeddedLog, read: Read) -> None:
    header = (("trace", b"7"), ("empty", b""))
    log.append(T1, Columns([b"k", None], [b"v", None], [1_700_000_000_123, 0], [header, ()]))
    found = read("key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
                 "headers array<struct<key: string, value: binary>>, timestampType int")  # fmt: skip
    first, second = sorted(found.collect(), key=lambda row: row.offset)
    assert [bytes(first.key), bytes(first.value)] == [b"k", b"v"]
    assert [(one.key, bytes(one.value)) for one in first.headers] == list(header)
    assert (first.topic, first.partition, first.offset, first.timestampType) == ("t", 1, 0, 0)
    assert (second.key, second.value, second.offset, second.headers) == (None, None, 1, [])
    millis = found.select(F.unix_millis("timestamp")).collect()
    assert sorted(row[0] for row in millis) == [0, 1_700_000_000_123]
    assert read().columns == ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]


def test_an_empty_topic_has_no_rows(read: Read) -> None:
    assert read().collect() == []


def test_every_record_is_read_once_with_any_slices(log: EmbeddedLog, read: Read) -> None:
    for start in range(0, 30_000, 3000):
        log.append(T0, rows(*(b"%d" % n for n in range(start, start + 3000))))
        log.append(T1, rows(b"x"))
    found = read(sliceBytes="200kB")
    assert found.rdd.getNumPartitions() in (4, 5)
    values = sorted((row.partition, row.offset, bytes(row.value)) for row in found.collect())
    assert values == [*((0, n, b"%d" % n) for n in range(30_000)), *((1, n, b"x") for n in range(10))]


def test_offsets_limit_what_is_read(log: EmbeddedLog, read: Read) -> None:
    log.append(T0, numbered(100))
    log.append(T1, numbered(50))
    found = read("partition int, offset long", startingOffsets='{"0": 90}', endingOffsets='{"0": 95, "1": 3}')
    assert sorted(map(tuple, found.collect())) == [*((0, n) for n in range(90, 95)), (1, 0), (1, 1), (1, 2)]
    only = read("partition int, offset long", partitions="1", startingOffsets='{"1": 48}')
    assert sorted(map(tuple, only.collect())) == [(1, 48), (1, 49)]


def test_timestamps_limit_what_is_read(log: EmbeddedLog, read: Read) -> None:
    for start in (0, 1000, 2000):
        times = list(range(start, start + 100))
        log.append(T0, Columns([None] * 100, [b"v"] * 100, times))
    ranged = read(startingTimestamp="50", endingTimestamp="1970-01-01T00:00:02.005+00:00", sliceBytes="1")
    assert sorted(row.offset for row in ranged.collect()) == [*range(50, 205)]
    assert read(startingTimestamp="2000", sliceBytes="1").rdd.getNumPartitions() == 1
    assert read(startingTimestamp="5000").count() == 0


def test_a_frame_reads_what_was_committed_when_it_was_loaded(log: EmbeddedLog, read: Read) -> None:
    log.append(T0, numbered(10))
    found = read()
    assert len(found.collect()) == 10
    log.append(T0, numbered(10))
    assert (len(found.collect()), found.count(), found.join(found, ["partition", "offset"]).count()) == (10, 10, 10)
    assert read().count() == 20
    log.delete_before(T0, 5)
    with pytest.raises(PySparkException, match="were deleted"):
        found.where("offset >= 0").count()
    log.delete("t")
    log.create(Topic("t", 2))
    with pytest.raises(PySparkException, match=r"was deleted and created again; load it again|were deleted"):
        found.where("offset >= 0").count()


def test_compacted_batches_keep_their_offsets(log: EmbeddedLog, read: Read) -> None:
    log.create(Topic("c", 1, {"cleanup.policy": "compact"}))
    part = TopicPartition("c", 0)
    log.append(part, keyed("a1 b1 a2 c1 b2 a3"))
    log.append(part, Columns([b"h"], [b"1"], [5], [(("x", b"y"),)]))
    log.compact(part)
    log.append(part, keyed("a4"))
    found = read("key binary, value binary, offset long", topic="c").orderBy("offset").collect()
    kept = log.read(part, 0, 100)
    assert [(bytes(row.key), bytes(row.value), row.offset) for row in found] == list(
        zip(kept.columns.keys, kept.columns.values, kept.offsets, strict=True)
    )
    assert len(found) < 8
    middle = read("offset long", topic="c", startingOffsets='{"0": 4}', endingOffsets='{"0": 6}')
    assert [row.offset for row in middle.collect()] == [n for n in kept.offsets if 4 <= n < 6]


def test_compressed_batches_are_read(log: EmbeddedLog, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    compressed = pa.ipc.IpcWriteOptions(compression="lz4")
    plain = pa.ipc.new_stream
    monkeypatch.setattr(pa.ipc, "new_stream", lambda sink, schema, options: plain(sink, schema, options=compressed))
    log.append(T0, rows(*[b"the same value again and again" * 10] * 1000))
    assert read().where(F.length("value") == 300).count() == 1000


def test_a_timestamp_outside_sparks_range_is_null(log: EmbeddedLog, read: Read) -> None:
    log.append(T0, Columns([None] * 3, [b"v"] * 3, [(1 << 63) - 1, 1_000, -1]))
    found = [row.timestamp for row in read("offset long, timestamp timestamp").orderBy("offset").collect()]
    assert found[0] is None
    assert found[1].astimezone(UTC) == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_deleted_records_are_not_silently_skipped(log: EmbeddedLog, read: Read) -> None:
    log.append(T0, numbered(100))
    log.delete_before(T0, 40)
    assert read().count() == 60
    with pytest.raises(PySparkException, match="offset 10 of t/0 is not in the log"):
        read(startingOffsets='{"0": 10}').count()
    planned = read().rdd
    assert planned.getNumPartitions() == 1
    log.delete_before(T0, 60)
    with pytest.raises(Exception, match="were deleted before they were read"):
        planned.count()


def test_large_slices_are_read_page_by_page(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_log, "PAGE", 1)
    for _ in range(5):
        log.append(T0, numbered(10))
    reader = arrow_log.ArrowLog(log.path)
    whole = arrow_log.Slice(reader.log, reader.extents("t")[0].topic, T0, 5, 45)
    offsets = [
        offset
        for batch in reader.batches(whole, arrow_log.TimestampRange())
        for offset in batch.column("offset").to_pylist()
    ]
    assert offsets == list(range(5, 45))
    reader.close()


def test_a_record_is_read_once_while_compaction_merges_batches(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_log, "PAGE", 1)
    log.create(Topic("c", 1, {"cleanup.policy": "compact"}))
    part = TopicPartition("c", 0)
    for text in ("a1 b1", "c1 d1", "a2 e1", "f1 g1"):
        log.append(part, keyed(text))
    with closing(arrow_log.ArrowLog(log.path)) as reader:
        whole = arrow_log.Slice(reader.log, reader.extents("c")[0].topic, part, 0, 7)
        found = reader.batches(whole, arrow_log.TimestampRange())
        offsets = next(found).column("offset").to_pylist() + next(found).column("offset").to_pylist()
        log.compact(part)
        assert len(list(reader.batches(whole, arrow_log.TimestampRange()))) == 1
        offsets += [offset for batch in found for offset in batch.column("offset").to_pylist()]
    assert offsets == list(range(7))


def test_records_deleted_during_planning_are_an_error(log: EmbeddedLog) -> None:
    log.append(T0, numbered(10))
    with closing(arrow_log.ArrowLog(log.path)) as reader:
        extents = reader.extents("t")
        log.delete_before(T0, 10)
        while log.clean():
            pass
        with pytest.raises(LogError, match="were deleted before they were read; it starts at 10 now"):
            pieces(reader, asked({"path": str(log.path), "topic": "t"}), extents, {}, {0: 10, 1: 0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "nowhere"}, 'there is no topic "nowhere"'),
        ({"path": "/nowhere"}, 'there is no log at "/nowhere" on this machine'),
        ({"partition": "1"}, 'has no option "partition"'),
        ({"partitions": "7"}, "has the partitions 0 to 1, no 7"),
        ({"startingOffsets": "first"}, "startingOffsets is 'first'; give \"earliest\""),
        ({"endingTimestamp": "soon"}, "endingTimestamp is 'soon'; give a time in UTC"),
        ({"schema": "offset int"}, "a topic has no column offset int; it has key binary"),
    ],
)
def test_mistakes_are_reported(read: Read, options: dict[str, str], message: str) -> None:
    with pytest.raises(PySparkException, match="streamtopo") as raised:
        read(**options).collect()
    assert message in str(raised.value)
