"""What every log promises about topics, records and notes."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from streamtopo.errors import LogError
from streamtopo.logs import LazyBatch, Log, Topic
from streamtopo.records import Batch, Columns, Headers, TopicPartition
from tests.logs.records import T0, T1, AnyLog, OwnLog, at_times, drain, keyed, numbered, reader, rows, values


def test_what_is_appended_is_read_with_all_it_carries(log: AnyLog) -> None:
    headers: list[Headers] = [(), (("trace", b"1"), ("trace", b"2")), (("é", b""),)]
    columns = Columns([b"k", None, b""], [None, b"v", b""], [5, -1, 5], headers)
    assert log.append(T0, columns) == 3
    batch = log.read(T0, 0, 10)
    assert batch.columns == columns
    assert (batch.source, list(batch.offsets), batch.next_offset) == (T0, [0, 1, 2], 3)


def test_headers_are_absent_where_no_record_has_any(log: AnyLog) -> None:
    log.append(T0, rows(b"a", b"b"))
    assert log.read(T0, 0, 10).columns.headers is None
    log.append(T0, rows(b"c", headers=[(("h", b"1"),)]))
    assert log.read(T0, 0, 10).columns.headers == [(), (), (("h", b"1"),)]


@pytest.mark.parametrize(("offset", "limit"), [(0, 3), (4, 3), (7, 100), (9, 1), (10, 5), (3, 0)])
def test_a_read_begins_at_its_offset_and_keeps_to_its_limit(log: AnyLog, offset: int, limit: int) -> None:
    for start in (0, 4, 8):
        log.append(T0, rows(*(b"%d" % number for number in range(start, min(start + 4, 10)))))
    expected = list(range(offset, min(offset + limit, 10)))
    batch = log.read(T0, offset, limit)
    assert batch.columns.values == [b"%d" % number for number in expected]
    assert (list(batch.offsets), batch.next_offset) == (expected, min(offset + limit, 10))


@pytest.mark.parametrize("offset", [0, 2, 3])
def test_a_read_ends_when_it_has_enough_bytes(own_log: OwnLog, offset: int) -> None:
    own_log.append(T0, rows(*(b"%d" % number * 1_000_000 for number in range(10))))
    own_log.append(T0, rows(b"x" * 8_000_000, b"y"))
    seen = []
    while offset < own_log.end(T0):
        batch = own_log.read(T0, offset, 100, 3_000_000)
        seen.append([value[:1].decode() for value in batch.columns.values if value])
        assert 0 < sum(len(value or b"") for value in batch.columns.values[:-1]) <= 3_000_000 or len(batch.offsets) == 1
        assert batch.next_offset == batch.offsets[-1] + 1
        offset = batch.next_offset
    assert "".join(map("".join, seen)) == "0123456789xy"[-sum(map(len, seen)) :]
    assert 4 <= len(seen) <= 8
    assert len(own_log.read(T0, 0, 100, 0).offsets) == 1
    assert len(own_log.read(T0, 0, 2, 3_000_000).offsets) == 2
    assert len(own_log.read(T0, 0, 100).offsets) == 12


def test_partitions_have_their_own_offsets(log: AnyLog) -> None:
    log.append(T0, rows(b"a", b"b"))
    log.append(T1, rows(b"c"))
    assert [(log.start(part), log.end(part), values(log, part)) for part in (T0, T1)] == [
        (0, 2, [b"a", b"b"]),
        (0, 1, [b"c"]),
    ]


def test_nothing_is_appended_where_nothing_is_given(log: AnyLog) -> None:
    assert log.append(T0, rows()) == 0
    assert log.read(T0, 0, 10) == Batch(T0, Columns([], [], []), [], 0)


def test_many_records_in_one_append_keep_their_order(log: AnyLog) -> None:
    log.append(T0, numbered(25_000))
    assert values(log) == [b"%d" % number for number in range(25_000)]
    assert drain(reader(log, T0), limit=7_001) == values(log)


@pytest.mark.parametrize("offset", [-1, 1, 6])
def test_reading_outside_of_what_there_is_is_an_error(log: AnyLog, offset: int) -> None:
    log.append(T0, numbered(5))
    log.delete_before(T0, 2)
    with pytest.raises(LogError, match=rf"offset {offset} of t/0 is not in the log \(it has 2 to 5\)"):
        log.read(T0, offset, 10)


def test_delete_before_moves_the_start(log: AnyLog) -> None:
    log.append(T0, numbered(5))
    for offset, start in [(2, 2), (1, 2), (4, 4), (99, 5)]:
        log.delete_before(T0, offset)
        assert log.start(T0) == start
        assert values(log) == [b"%d" % number for number in range(start, 5)]
    assert log.append(T0, rows(b"5")) == 6


def test_the_offset_at_a_time_is_that_of_the_first_record_that_is_not_older(log: AnyLog) -> None:
    """Not of the oldest one that is not."""
    log.append(T0, at_times(10, 20, 15))
    log.append(T0, at_times(30, 25))
    expected = {0: 0, 10: 0, 11: 1, 20: 1, 21: 3, 30: 3, 31: 5, 99: 5}
    assert {time: log.offset_at(T0, time) for time in expected} == expected
    assert log.offset_at(T1, 0) == 0


def test_what_is_deleted_is_not_found_by_its_time(log: AnyLog) -> None:
    log.append(T0, at_times(10, 40, 20, 5))
    log.append(T0, at_times(7, 30))
    log.delete_before(T0, 2)
    assert [log.offset_at(T0, time) for time in (0, 15, 25, 35)] == [2, 2, 5, 6]


def scan(log: Log, start: int, end: int) -> list[LazyBatch]:
    return list(log.scan(T0, start, end))


@pytest.mark.parametrize(("start", "end"), [(0, 10), (0, 8), (3, 7), (5, 6), (8, 10), (4, 4), (7, 3)])
def test_a_scan_has_the_records_of_its_range(log: AnyLog, start: int, end: int) -> None:
    """Also those of a range that begins before the start of the partition."""
    for first in (0, 4, 8):
        log.append(T0, rows(*(b"%d" % number for number in range(first, min(first + 4, 10)))))
    log.delete_before(T0, 2)
    expected = range(max(start, 2), end)
    batches = scan(log, start, end)
    assert [offset for batch in batches for offset in batch.offsets] == list(expected)
    assert [value for batch in batches for value in batch.columns().values] == [b"%d" % number for number in expected]
    times = [time for batch in batches for time in batch.timestamps()]
    assert times == [number % 4 or log.read(T0, 8, 1).columns.timestamps[0] for number in expected]  # Kafka has no 0


def test_a_scan_decodes_the_columns_that_are_asked_for(log: AnyLog) -> None:
    """Of two headers with the same name, the last one counts."""
    headers: list[Headers] = [(("a", b"1"), ("b", b"2")), (), (("b", b"3"), ("a", None), ("b", b"4")), (("c", b"5"),)]
    log.append(T0, rows(b"", b"", b"", b"", key=b"k", headers=headers))
    (batch,) = scan(log, 0, 4)
    assert batch.keys() == [b"k"] * 4
    assert batch.headers({"a", "b", "d"}) == {"a": [b"1", None, None, None], "b": [b"2", None, b"4", None]}
    (part,) = scan(log, 2, 4)
    assert part.headers({"b", "c"}) == {"b": [b"4", None], "c": [None, b"5"]}


def test_a_scan_of_records_without_headers(log: AnyLog) -> None:
    log.append(T0, rows(b"", b""))
    (batch,) = scan(log, 0, 2)
    assert batch.headers({"a"}) == {}


def test_records_with_tracebacks_are_read_as_they_were_written(log: AnyLog) -> None:
    """The embedded log compresses them."""
    headers: list[Headers] = [((f"h{number}", b"in orders.py\n" * 100), ("n", None)) for number in range(50)]
    log.append(T0, rows(*[b"x"] * 50, headers=headers))
    assert log.read(T0, 10, 5).columns.headers == headers[10:15]
    assert log.read(T0, 0, 50).columns.headers == headers


def test_compaction_keeps_the_last_of_each_key_at_its_offset(own_log: OwnLog) -> None:
    own_log.append(T0, keyed("a1 b1 a2 a3 c1"))
    own_log.append(T0, keyed("c- b2 d1"))
    own_log.compact(T0)
    batch = own_log.read(T0, 0, 10)
    assert list(zip(batch.columns.keys, batch.columns.values, batch.offsets, strict=True)) == [
        (b"a", b"3", 3),
        (b"c", None, 5),
        (b"b", b"2", 6),
        (b"d", b"1", 7),
    ]
    assert (own_log.start(T0), own_log.end(T0), batch.next_offset) == (0, 8, 8)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_reading_continues_after_holes(own_log: OwnLog, limit: int) -> None:
    own_log.append(T0, keyed("a1 a2 a3 b1 a4"))
    own_log.compact(T0)
    own_log.append(T0, keyed("a5 c1"))
    offset, seen = 0, []
    while offset < own_log.end(T0):
        batch = own_log.read(T0, offset, limit)
        seen += batch.columns.values
        offset = batch.next_offset
    assert seen == [b"1", b"4", b"5", b"1"]
    assert drain(reader(own_log, T0), limit) == seen


@pytest.mark.parametrize("seed", range(5))
def test_any_mix_of_appends_compactions_and_deletions_reads_like_a_list(own_log: OwnLog, seed: int) -> None:
    rng = random.Random(seed)
    kept: dict[int, tuple[bytes | None, bytes | None]] = {}
    for _ in range(60):
        action = rng.choice(["append"] * 4 + ["compact", "delete", "read", "read"])
        end = own_log.end(T0)
        if action == "append":
            pairs = [(rng.choice([None, b"a", b"b", b"c"]), b"%d" % rng.randrange(9)) for _ in range(rng.randrange(5))]
            own_log.append(T0, Columns([key for key, _ in pairs], [value for _, value in pairs], [0] * len(pairs)))
            kept |= {end + place: pair for place, pair in enumerate(pairs)}
        elif action == "compact":
            own_log.compact(T0)
            last = {key: offset for offset, (key, _) in kept.items()}
            kept = {offset: pair for offset, pair in kept.items() if pair[0] is None or last[pair[0]] == offset}
        elif action == "delete" and rng.random() < 0.3:
            before = rng.randrange(own_log.start(T0), end + 1)
            own_log.delete_before(T0, before)
            kept = {offset: pair for offset, pair in kept.items() if offset >= before}
        offset, limit = rng.randrange(own_log.start(T0), own_log.end(T0) + 1), rng.randrange(1, 12)
        batch = own_log.read(T0, offset, limit)
        expected = [(place, *pair) for place, pair in kept.items() if place >= offset][:limit]
        assert list(zip(batch.offsets, batch.columns.keys, batch.columns.values, strict=True)) == expected


def test_creating_a_topic_twice_is_fine_and_with_another_count_or_config_is_not(log: AnyLog) -> None:
    log.append(T0, rows(b"a"))
    log.create(Topic("t", 2))
    assert values(log) == [b"a"]
    with pytest.raises(LogError, match='topic "t" exists with 2 partitions, not 3'):
        log.create(Topic("t", 3))
    with pytest.raises(
        LogError, match=r"exists with the config \{\}, not \{'cleanup.policy': 'compact'\}, and that cannot"
    ):
        log.create(Topic("t", 2, {"cleanup.policy": "compact"}))
    assert log.topics()["t"].config == {}


def test_topics_are_listed_with_their_config(log: AnyLog) -> None:
    before = log.topics()
    log.create(Topic("u", 1, {"cleanup.policy": "compact"}))
    named = {name: topic._replace(id="") for name, topic in log.topics().items()}
    assert named == {"t": Topic("t", 2), "u": Topic("u", 1, {"cleanup.policy": "compact"})}
    assert before.keys() == {"t"}


def test_a_topic_created_again_is_another_one(log: AnyLog) -> None:
    before = log.topics()["t"].id
    log.delete("t")
    log.create(Topic("t", 2))
    assert log.topics()["t"].id != before


def test_what_was_deleted_is_not_there(log: AnyLog) -> None:
    log.append(T0, numbered(3))
    log.delete("t")
    assert log.topics() == {}
    uses: list[Callable[[TopicPartition], object]] = [
        log.start,
        log.end,
        lambda part: log.read(part, 0, 1),
        lambda part: log.append(part, rows(b"a")),
    ]
    for use in uses:
        with pytest.raises(LogError, match="partition t/0 does not exist; create the topic first"):
            use(T0)
    with pytest.raises(LogError, match='topic "t" does not exist'):
        log.delete("t")
    log.create(Topic("t", 1))
    assert (log.end(T0), values(log)) == (0, [])


def test_a_partition_that_the_topic_does_not_have_is_an_error(log: AnyLog) -> None:
    with pytest.raises(LogError, match="partition t/2 does not exist"):
        log.append(TopicPartition("t", 2), rows(b"a"))


def test_notes_are_kept(log: AnyLog) -> None:
    assert log.note("n") is None
    log.write_note("n", "one")
    log.write_note("n", "two")
    assert (log.note("n"), log.note("m")) == ("two", None)


def test_large_keys_and_values(own_log: OwnLog) -> None:
    big = b"x" * 50_000_000
    own_log.append(T0, Columns([b"k" * 1_000_000, b"small", None], [b"v", big, b"after"], [1, 2, 3]))
    batch = own_log.read(T0, 0, 10)
    assert [len(key or b"") for key in batch.columns.keys] == [1_000_000, 5, 0]
    assert [len(value or b"") for value in batch.columns.values] == [1, 50_000_000, 5]
    assert batch.columns.values[1] == big


def test_many_partitions(log: AnyLog) -> None:
    log.create(Topic("many", 200))
    parts = [TopicPartition("many", number) for number in range(200)]
    for part in parts[::2]:
        log.append(part, rows(str(part).encode()))
    assert sorted(value for value in drain(reader(log, *parts), 10) if value) == sorted(
        str(part).encode() for part in parts[::2]
    )


def test_several_threads_append_and_read_at_once(log: AnyLog) -> None:
    def write(name: bytes) -> None:
        for number in range(20):
            log.append(T0, rows(b"%s%d" % (name, number)))
            assert len(log.read(T0, 0, 1000).offsets) >= number + 1

    threads = [threading.Thread(target=write, args=(name,), daemon=True) for name in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = values(log)
    assert [value for value in written if value and value[:1] == b"b"] == [b"b%d" % number for number in range(20)]
    assert (len(written), log.end(T0)) == (60, 60)


def test_a_mistyped_number_of_partitions_is_refused(log: AnyLog) -> None:
    with pytest.raises(LogError, match='topic "many" cannot have 100,000,000 partitions; give it 1 to 10,000'):
        log.create(Topic("many", 100_000_000))
    assert "many" not in log.topics()
