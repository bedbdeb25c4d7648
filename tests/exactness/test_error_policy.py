"""An error policy gets the failed record itself, and what it writes is committed once, with that record's position."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

from streamtopo import (
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    StreamtopoError,
    Topology,
    Worker,
    dead_letter,
    key_value_store,
)
from streamtopo.engine.task.rounds import Round
from streamtopo.errors import FailedRecord, StepError
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.settings.on_error import OnError
from streamtopo.stores.backends.memory import MemoryStore
from tests.exactness.test_commit import DisturbedLog, DisturbedMember

IN, OUT, LETTERS = (TopicPartition(name, 0) for name in ("in", "out", "letters"))
HEADERS = (("id", b"7"),)


class Asked:
    """A function for on_error that remembers the last record it was asked about."""

    def __init__(self, answer: str = "dead_letter") -> None:
        self.answer = answer

    def __call__(self, failed: FailedRecord) -> str:
        self.last = failed
        return self.answer


def topology() -> Topology:
    """A step that raises at 0, and a count that shows whether a record was processed twice."""
    builder = StreamsBuilder("policy")
    stream = builder.stream("in", key=str, value=int).map_values(lambda value: 12 // value)
    stream.group_by_key().count(name="counts").to_stream().to("out")
    return builder.build()


def fed(values: Iterable[int | None], log: MemoryLog | None = None) -> MemoryLog:
    """Return a log with these values; None stands for a record that cannot be decoded."""
    log = log or MemoryLog()
    for part in (IN, OUT, LETTERS):
        log.create(Topic(part.topic, 1))
    for time, value in enumerate(values):
        raw = b"bad" if value is None else value.to_bytes(8, "big")
        log.append(IN, Columns([b"k"], [raw], [time], [HEADERS]))
    return log


def worker_of(described: Topology, log: MemoryLog, on_error: OnError = "dead_letter", **options: Any) -> Worker:
    store = MemoryStore()
    given = {"on_error": on_error, "dead_letter_topic": "letters", "commit_pause": 0} | options
    return Worker(described, log, lambda stores, partition: store, **given)


def work(worker: Worker) -> None:
    while worker.run_once():
        pass


def letters(log: MemoryLog) -> list[tuple[bytes | None, str]]:
    columns = log.read(LETTERS, 0, 1000).columns
    found = []
    for value, headers in zip(columns.values, columns.headers or (), strict=True):
        assert headers[: len(HEADERS)] == HEADERS
        told = {name.removeprefix("__streams.errors."): (text or b"").decode() for name, text in headers}
        found.append((value, f"{told['topic']}/{told['partition']} offset {told['offset']}"))
    return found


ZERO = bytes(8)


@pytest.mark.parametrize("cache", [0, 100_000])
@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_failed_record_is_written_once_and_unchanged(chunk: int, cache: int, exactly_once: bool) -> None:
    log = fed([1, 0, 2, None, None, 0, 3, None])
    guarantee = "exactly-once" if exactly_once else "at-least-once"
    worker = worker_of(topology(), log, chunk=chunk, cache=cache, guarantee=guarantee)
    work(worker)
    wrong = [(ZERO, 1), (b"bad", 3), (b"bad", 4), (ZERO, 5), (b"bad", 7)]
    assert sorted(letters(log)) == sorted((value, f"in/0 offset {offset}") for value, offset in wrong)
    assert (worker.metrics().dead_letters, worker.skipped) == (5, 0)
    worker.close()


@pytest.mark.parametrize("wrong", [0, None])
def test_a_failed_record_is_freed_by_the_commit_that_passes_it(
    wrong: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Its traceback has all the rows that were processed with it. Cycles would stay: workers seldom look for them."""

    class Remembered:
        def __call__(self, failed: FailedRecord) -> str:
            self.last = weakref.ref(failed)
            return "skip"

    caplog.set_level(logging.ERROR, "streamtopo")  # caplog would keep the warning, with its error
    policy = Remembered()
    worker = worker_of(topology(), fed([1, wrong, 2]), policy)
    gc.disable()
    try:
        work(worker)
        assert policy.last() is None
    finally:
        gc.enable()
    worker.close()


class Inverse(Processor):
    """Raises at 0. Each processor, its context and its stores refer to each other."""

    def init(self, context: ProcessorContext) -> None:
        self.context, self.last = context, context.get_state_store("last")

    def process(self, record: Record) -> None:
        self.last.put(record.key, record.value)
        self.context.forward(Record(record.key, 12 // record.value, record.timestamp))


def test_rows_that_were_processed_with_a_failed_record_are_freed_by_the_commit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "streamtopo")
    builder = StreamsBuilder("policy")
    last = key_value_store("last", key=str, value=int)
    builder.stream("in", key=str, value=int).process(Inverse, stores=[last], key=str, value=int).to("out")
    worker = worker_of(builder.build(), fed([1, 0, 2]), "skip")
    gc.collect()
    before = rounds()
    gc.disable()
    try:
        work(worker)
        assert (worker.skipped, rounds()) == (1, before)
    finally:
        gc.enable()
    worker.close()


def rounds() -> int:
    return sum(isinstance(one, Round) for one in gc.get_objects())


def test_the_policy_gets_the_complete_record() -> None:
    policy = Asked()
    worker = worker_of(topology(), fed([1, 0]), policy)
    work(worker)
    failed = policy.last
    assert (failed.node, failed.task, failed.topic) == ("KSTREAM-MAPVALUES-0000000001", "0_0", "in")
    assert (failed.partition, failed.offset, failed.timestamp) == (0, 1, 1)
    assert (failed.key, failed.value, failed.headers) == (b"k", ZERO, HEADERS)
    assert isinstance(failed.cause, ZeroDivisionError)
    worker.close()


def test_an_undecodable_record_is_written_with_the_commit_that_passes_it() -> None:
    """It fails when it is read. Until the records before it are committed, another worker may read it again."""
    log = fed([1, 2, None, 3])
    first = worker_of(topology(), log, chunk=1)
    while log.end(OUT) == 0:
        first.run_once()
        first.commit()
    assert first.metrics().dead_letters == 1
    assert letters(log) == []
    first.member.leave()  # as if the worker had been killed
    second = worker_of(topology(), log, chunk=1)
    work(second)
    assert letters(log) == [(b"bad", "in/0 offset 2")]
    second.close()


def test_an_undecodable_record_is_passed_if_a_record_before_it_was_replayed() -> None:
    """It was read in another batch, and nothing follows it: no round has it, but the next commit must pass it."""
    builder = StreamsBuilder("policy")
    builder.stream("in", "more", key=str, value=int).map_values(lambda value: 12 // value).to("out")
    log, more = fed([1]), TopicPartition("more", 0)
    log.create(Topic("more", 1))
    worker = worker_of(builder.build(), log, commit_interval="1h", commit_pause="1h")
    work(worker)
    fed([None], log)
    worker.run_once()
    log.append(more, Columns([b"k"], [ZERO], [2], [HEADERS]))
    work(worker)
    worker.close()
    assert sorted(letters(log)) == [(ZERO, "more/0 offset 0"), (b"bad", "in/0 offset 1")]


@pytest.mark.parametrize("ending", ["not done", "unknown, done", "unknown, not done"])
@pytest.mark.parametrize("chunk", [1, 1000])
def test_a_failed_commit_writes_nothing_twice(ending: str, chunk: int) -> None:
    log = DisturbedLog()
    fed([0, None, 4, 0, None, 0], log)
    worker = worker_of(topology(), log, chunk=chunk)
    DisturbedMember.ending = ending
    work(worker)
    DisturbedMember.ending = None
    assert sorted(place for _, place in letters(log)) == [f"in/0 offset {offset}" for offset in (0, 1, 3, 4, 5)]
    assert (worker.metrics().dead_letters, worker.skipped) == (5, 0)
    worker.close()


def test_a_record_that_succeeds_on_retry_is_not_written() -> None:
    """The third round fails, and all rounds are repeated."""
    raises = {1: iter([False, False]), 2: iter([False, False]), 3: iter([True, False])}

    def flaky(value: int) -> int:
        if next(raises[value]):
            raise ValueError("for now")
        return value

    builder = StreamsBuilder("policy")
    builder.stream("in", key=str, value=int).map_values(flaky).to("out")
    log = fed([1, 2, 3])
    worker = worker_of(builder.build(), log, chunk=1, commit_interval="1h")
    work(worker)
    assert [next(answers, None) for answers in raises.values()] == [None] * 3
    assert (letters(log), log.end(OUT)) == ([], 3)
    worker.close()


def test_a_failed_scheduled_call_has_no_record() -> None:
    class Tick(Processor):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(10, "stream_time", partial(int, "no number"))

        def process(self, record: Record) -> None:
            pass

    builder = StreamsBuilder("policy")
    builder.stream("in", value=int).process(Tick)
    policy, log = Asked(), fed([1])
    work(worker_of(builder.build(), log, policy))
    assert (policy.last.topic, policy.last.key, policy.last.offset) == (None, None, -1)
    assert policy.last.place == "task 0_0, the punctuation at stream time 0"
    columns = log.read(LETTERS, 0, 10).columns
    assert columns.values == [None]


def test_a_topic_for_dead_letters_that_is_gone_stops_the_worker_and_nothing_is_lost() -> None:
    log = fed([1, 0])
    worker_of(topology(), log).close()  # it has created the internal topics
    worker = worker_of(topology(), log, lambda failed: dead_letter("nowhere"), no_create=True)
    with pytest.raises(StreamtopoError, match='"nowhere" does not exist'):
        work(worker)
    assert log.end(OUT) == 0
    worker.abandon()
    again = worker_of(topology(), log)
    work(again)
    assert (log.end(OUT), letters(log)) == (1, [(ZERO, "in/0 offset 1")])
    again.close()


def test_a_policy_may_stop_later_and_keep_what_it_skipped_before() -> None:
    log = fed([1, 0, 2, 0, 3])
    worker = worker_of(topology(), log, lambda failed: "fail" if failed.offset > 1 else "dead_letter", cache=0)
    with pytest.raises(StepError, match="in/0 offset 3: ZeroDivisionError"):
        work(worker)
    worker.abandon()
    assert letters(log) == [(ZERO, "in/0 offset 1")]
    assert log.read(OUT, 0, 10).columns.values == [(number).to_bytes(8, "big") for number in (1, 2)]


def test_a_record_of_a_global_table_is_rejected_too_and_nothing_is_written() -> None:
    """Every worker reads it again when it starts, so no commit passes it."""
    builder = StreamsBuilder("policy")
    table = builder.global_table("in", key=str, value=int)
    joined = builder.stream("asked", key=str, value=str).join(table, lambda key, _: key, lambda _, found: found)
    joined.to("out", value=int)
    log = fed([1, None, 3, None])
    log.create(Topic("asked", 1))
    log.append(TopicPartition("asked", 0), Columns([b"k"], [b"?"], [0]))
    policy = Asked()
    worker = worker_of(builder.build(), log, policy)
    work(worker)
    assert (policy.last.topic, policy.last.offset, policy.last.value) == ("in", 3, b"bad")
    assert (worker.metrics().dead_letters, letters(log)) == (2, [])
    assert log.read(OUT, 0, 10).columns.values == [(3).to_bytes(8, "big")]
    worker.close()
