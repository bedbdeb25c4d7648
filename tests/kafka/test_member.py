"""What is particular to groups on Kafka: partitions given back in a poll, protocols, undecided transactions."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Place

from streamtopo.broker import Cluster
from streamtopo.errors import LogError
from streamtopo.logs import Topic
from streamtopo.logs.kafka import KafkaLog, KafkaMember
from streamtopo.logs.kafka.admin import places
from streamtopo.logs.kafka.transactions import Transactions
from streamtopo.logs.opening import open_log
from streamtopo.records import Columns, Position, TopicPartition
from tests.kafka.brokers import emptied
from tests.logs.child import until
from tests.logs.records import DONE, NOT_DONE, T0, T1, at, drain, rows, settled, values

pytestmark = pytest.mark.kafka


@pytest.fixture(params=["consumer", "classic"])
def log(request: pytest.FixtureRequest, kafka: str) -> Iterator[KafkaLog]:
    emptied(kafka).close()
    log = open_log(f"{kafka}?kafka.group.protocol={request.param}")
    assert isinstance(log, KafkaLog)
    log.create(Topic("t", 2))
    yield log
    log.close()


def test_what_is_taken_away_can_be_committed_before(log: KafkaLog) -> None:
    one = log.join("g", [("t",)])
    assert settled(one) == [{"t/0", "t/1"}]
    two = log.join("g", [("t",)])
    given: set[TopicPartition] = set()

    def give(partitions: frozenset[TopicPartition]) -> None:
        if not given:
            one.send(T0, rows(b"last"))
            assert one.commit(at(4, 5)).outcome is DONE
        given.update(partitions)

    def shared() -> bool:
        one.poll(10, 0.05, revoking=give)
        two.poll(10, 0.05)
        return len(one.assignment()) == len(two.assignment()) == 1

    until(shared)
    assert two.assignment() <= given
    assert two.committed([T0, T1]) == at(4, 5)
    taken = next(iter(two.assignment()))
    assert one.commit({taken: Position(9)}).outcome is NOT_DONE
    assert values(log) == [b"last"]


def test_an_error_while_giving_back_comes_out_of_the_poll(log: KafkaLog) -> None:
    one, two = log.join("g", [("t",)]), None
    settled(one)
    two = log.join("g", [("t",)])

    def fail(_: frozenset[TopicPartition]) -> None:
        raise LogError("no commit today")

    with pytest.raises(LogError, match="no commit today"):
        until(lambda: two.poll(1, 0.05) or one.poll(1, 0.05, revoking=fail))


def test_before_anything_came_there_may_be_more(log: KafkaLog) -> None:
    """Else a task would take the records of one input while those of another, though older, are on their way."""
    log.append(T0, rows(b"there"))
    one = log.join("g", [("t",)])
    settled(one)
    one.seek(T0, 0)
    one.seek(T1, 0)
    assert one.ends()[T0] == 1
    until(lambda: not one.poll(10, 0.05) and one.ends() == {T0: 1, T1: 0})


def test_records_of_paused_partitions_wait_and_are_read_later(log: KafkaLog) -> None:
    log.append(T0, rows(*(b"%d" % number for number in range(50))))
    log.append(T1, rows(b"other"))
    member = log.join("g", [("t",)])
    settled(member)
    for partition in (T0, T1):
        member.seek(partition, 0)
    found: list[bytes | None] = []

    def other() -> list[bytes | None]:
        for batch in member.poll(20, 0.05, {T0}):
            assert batch.source == T1
            found.extend(batch.columns.values)
        return found

    until(other)
    until(lambda: member.poll(20, 0.05, {T0}) or member._backlog)
    assert drain(member, 20) == [b"%d" % number for number in range(50)]


def test_positions_wait_for_the_transaction_of_a_dead_member(log: KafkaLog) -> None:
    member = log.join("g", [("t",)])
    settled(member)
    assert member.commit(at(1, 1)).outcome is DONE
    dead = member._writes
    assert isinstance(dead, Transactions)
    dead.begin()
    dead._producer.send_offsets_to_transaction(places(at(2, 2)), member._consumer.consumer_group_metadata(), 10)
    assert member.committed([T0, T1]) is None
    dead.settle()
    until(lambda: member.committed([T0, T1]) == at(1, 1))


def test_a_transaction_that_the_cluster_ended_is_not_done_and_the_next_one_is(log: KafkaLog, kafka: str) -> None:
    with closing(open_log(f"{kafka}?kafka.transaction.timeout.ms=1000")) as short:
        member = short.join("g", [("t",)])
        assert isinstance(member, KafkaMember)
        settled(member)
        member.send(T0, rows(b"late"))
        end = log.end(T0)
        until(lambda: log.end(T0) > end + 1 if end else log.end(T0) > 1)  # the record, and the cluster's abort marker
        committed = member.commit(at(1))
        assert committed.outcome is not DONE
        member.abort()
        member.send(T0, rows(b"in time"))
        assert member.commit(at(2)).outcome is DONE
        assert (values(log), member.committed([T0])) == ([b"in time"], at(2))


def test_why_announced_positions_were_refused_is_said_though_records_came_after(log: KafkaLog) -> None:
    one = log.join("g", [("t",)])
    settled(one)
    too_much = {T0: Position(4, "x" * 5000)}
    one.announce(too_much)
    time.sleep(1.0)
    one.send(T0, rows(b"too late"))
    committed = one.commit(too_much)
    assert committed.outcome is NOT_DONE
    assert "offset.metadata.max.bytes" in committed.reason
    one.abort()
    one.announce(at(1, 1))
    one.send(T0, rows(b"in time"))
    assert one.commit(at(1, 1)).outcome is DONE
    assert values(log) == [b"in time"]


def test_a_commit_that_the_cluster_does_not_answer_is_given_up_and_the_next_one_is_done(
    log: KafkaLog, kafka: str, cluster: Cluster
) -> None:
    with closing(open_log(f"{kafka}?kafka.transaction.timeout.ms=1000")) as short:
        member = short.join("g", [("t",)])
        assert isinstance(member, KafkaMember)
        settled(member)
        member.send(T0, rows(b"lost"))
        (broker,) = cluster.nodes()
        broker.signal(signal.SIGSTOP)
        try:
            committed = member.commit(at(1))
        finally:
            broker.signal(signal.SIGCONT)
        assert (committed.outcome, committed.reason) == (NOT_DONE, "the group's coordinator did not answer")
        member.abort()
        member.send(T0, rows(b"kept"))
        assert member.commit(at(2)).outcome is DONE
        assert (values(log), member.committed([T0])) == ([b"kept"], at(2))


def test_what_was_lost_and_given_again_is_not_committed_before_it_is_closed(log: KafkaLog) -> None:
    member = log.join("g", [("t",)])
    settled(member)
    member._taken(None, [Place("t", 0)])
    member._owned.add(T0)  # given again before the worker has looked
    assert member.assignment() == {T1}
    assert member.assignment() == {T0, T1}
    assert member.commit(at(1)).outcome is NOT_DONE
    member.release([T0])
    assert member.commit(at(1)).outcome is DONE


def test_topics_read_together_must_have_equal_counts(log: KafkaLog) -> None:
    log.create(Topic("three", 3))
    with pytest.raises(LogError, match="t has 2, three has 3"):
        log.join("g", [("t", "three")])


def test_a_record_that_is_too_large_says_what_to_set(log: KafkaLog) -> None:
    log.create(Topic("small", 1, {"max.message.bytes": "1000"}))
    small = TopicPartition("small", 0)
    with pytest.raises(LogError, match=r"MSG_SIZE_TOO_LARGE.*max\.message\.bytes"):
        log.append(small, Columns([None], [b"x" * 5000], [1]))
    member = log.join("g", [("t",)])
    settled(member)
    member.send(small, Columns([None], [b"x" * 5000], [1]))
    committed = member.commit(at(1))
    assert committed.outcome is NOT_DONE
    assert "max.message.bytes" in committed.reason
    member.abort()
    with pytest.raises(LogError, match=r"MSG_SIZE_TOO_LARGE.*kafka\.message\.max\.bytes"):
        member.send(small, Columns([None], [b"x" * 2_000_000], [1]))


def test_at_least_once_needs_no_transaction(log: KafkaLog) -> None:
    member = log.join("g", [("t",)], exactly_once=False)
    settled(member)
    member.send(T0, rows(b"a", b"b"))
    until(lambda: log.end(T0) == 2)
    committed = member.commit({T0: Position(7, "remembered")})
    assert (committed.outcome, committed.ends) == (DONE, {T0: 2})
    assert member.committed([T0]) == {T0: Position(7, "remembered")}


@pytest.mark.usefixtures("cluster")
def test_a_cluster_without_the_newer_protocol_is_joined_by_the_classic_one(tmp_path: Path) -> None:
    old = Cluster(tmp_path)
    url = f"kafka://{old.up(port=0, config={'group.coordinator.rebalance.protocols': 'classic'})}"
    try:
        log = open_log(url)
        log.create(Topic("t", 2))
        member = log.join("g", [("t",)])
        assert isinstance(member, KafkaMember)
        assert (settled(member), member._protocol) == ([{"t/0", "t/1"}], "classic")
        log.close()
    finally:
        for node in old.nodes():
            node.signal(signal.SIGKILL)


def test_a_turn_that_takes_too_long_commits_nothing_and_the_work_goes_on(
    log: KafkaLog, kafka: str, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(open_log(f"{kafka}?kafka.max.poll.interval.ms=2000&kafka.session.timeout.ms=2000")) as short:
        member = short.join("g", [("t",)])
        assert isinstance(member, KafkaMember)
        settled(member)
        member.send(T0, rows(b"late"))
        until(lambda: "g" not in log.groups())
        assert member.commit(at(1, 1)).outcome is NOT_DONE
        member.abort()
        until(lambda: member.poll(1, 0.05) or member.assignment() == set())
        until(lambda: member.poll(1, 0.05) or member.assignment() == {T0, T1})
        assert "longer than kafka.max.poll.interval.ms" in caplog.text
        member.release([T0, T1])
        assert member.commit(at(2, 2)).outcome is DONE
        assert values(log) == []
