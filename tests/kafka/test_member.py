"""Group members on Kafka: partitions revoked during a poll, protocols, undecided transactions."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Place

from streamtopo.broker import Cluster
from streamtopo.errors import LogError, RecordTooLarge
from streamtopo.logs import Topic
from streamtopo.logs.kafka import KafkaLog, KafkaMember
from streamtopo.logs.kafka.admin.groups import client_partitions
from streamtopo.logs.kafka.group import writers
from streamtopo.logs.kafka.group.writers import TransactionalWriter
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


def test_revoked_partitions_can_be_committed_before_they_are_lost(log: KafkaLog) -> None:
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


def test_an_error_while_releasing_partitions_is_raised_by_the_poll(log: KafkaLog) -> None:
    one, two = log.join("g", [("t",)]), None
    settled(one)
    two = log.join("g", [("t",)])

    def fail(_: frozenset[TopicPartition]) -> None:
        raise LogError("no commit today")

    with pytest.raises(LogError, match="no commit today"):
        until(lambda: two.poll(1, 0.05) or one.poll(1, 0.05, revoking=fail))


def test_before_the_first_records_there_may_be_more(log: KafkaLog) -> None:
    """Otherwise a task would process the records of one input while older records of another are on their way."""
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
    until(lambda: member.poll(20, 0.05, {T0}) or member._reader._backlog)
    assert drain(member, 20) == [b"%d" % number for number in range(50)]


def test_positions_wait_for_the_transaction_of_a_dead_member(log: KafkaLog) -> None:
    member = log.join("g", [("t",)])
    settled(member)
    assert member.commit(at(1, 1)).outcome is DONE
    dead = member._writer
    assert isinstance(dead, TransactionalWriter)
    dead.begin()
    dead._producer.send_offsets_to_transaction(
        client_partitions(at(2, 2)), member._consumer.client.consumer_group_metadata(), 10
    )
    assert member.committed([T0, T1]) is None
    dead.settle()
    until(lambda: member.committed([T0, T1]) == at(1, 1))


def test_after_a_transaction_ended_by_the_cluster_the_next_one_is_committed(log: KafkaLog, kafka: str) -> None:
    with closing(open_log(f"{kafka}?kafka.transaction.timeout.ms=1000")) as short:
        member = short.join("g", [("t",)])
        assert isinstance(member, KafkaMember)
        settled(member)
        member.send(T0, rows(b"late"))
        until(lambda: log.end(T0) > 1)  # the record, and the abort marker of the cluster
        committed = member.commit(at(1))
        assert committed.outcome is not DONE
        member.abort()
        member.send(T0, rows(b"in time"))
        assert member.commit(at(2)).outcome is DONE
        assert (values(log), member.committed([T0])) == ([b"in time"], at(2))


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_position_that_is_too_long_fails_at_once(log: KafkaLog, kafka: str, exactly_once: bool) -> None:
    one = log.join("g", [("t",)], exactly_once=exactly_once)
    settled(one)
    too_much = {T0: Position(4, "x" * 5000)}
    one.announce(too_much)
    time.sleep(1.0)
    one.send(T0, rows(b"too late"))
    with pytest.raises(LogError, match=r"the position of t/0: .* 5,000 characters.*offset\.metadata\.max\.bytes"):
        one.commit(too_much)
    one.abort()
    one.announce(at(1, 1))
    one.send(T0, rows(b"in time"))
    assert one.commit(at(1, 1)).outcome is DONE
    time.sleep(1.0)
    with closing(open_log(kafka)) as fresh:
        assert isinstance(fresh, KafkaLog)
        assert values(fresh) == ([] if exactly_once else [b"too late"]) + [b"in time"]


def test_a_commit_without_an_answer_is_given_up_and_the_next_one_is_done(
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
        assert committed.outcome is NOT_DONE
        assert re.search("the group's coordinator did not answer|[Tt]imed out", committed.reason)
        member.abort()
        member.send(T0, rows(b"kept"))
        assert member.commit(at(2)).outcome is DONE
        assert (values(log), member.committed([T0])) == ([b"kept"], at(2))


def test_a_member_that_cannot_abort_its_transaction_leaves_the_group(
    log: KafkaLog, kafka: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next worker of the process would wait for partitions that nobody reads."""
    with closing(open_log(f"{kafka}?kafka.session.timeout.ms=2000&kafka.heartbeat.interval.ms=300")) as short:
        assert isinstance(short, KafkaLog)
        member = short.join("g", [("t",)])
        settled(member)
        member.send(T0, rows(b"lost"))
        until(lambda: log.end(T0) > 0)
        for name in ("_COMMIT", "_CONNECTED", "PATIENCE"):
            monkeypatch.setattr(writers, name, 0.5)
        (broker,) = cluster.nodes()
        broker.signal(signal.SIGSTOP)
        try:
            with pytest.raises(LogError, match="prepare transactions"):
                member.leave()
        finally:
            broker.signal(signal.SIGCONT)
        monkeypatch.undo()
        after = short.join("g", [("t",)])
        assert settled(after) == [{"t/0", "t/1"}]


def test_a_partition_lost_and_assigned_again_is_not_committed_before_its_release(log: KafkaLog) -> None:
    member = log.join("g", [("t",)])
    settled(member)
    member._consumer._lost(None, [Place("t", 0)])
    member._consumer.ownership.give({T0})  # assigned again before the worker has looked
    assert member.assignment() == {T1}
    assert member.assignment() == {T0, T1}
    assert member.commit(at(1)).outcome is NOT_DONE
    member.release([T0])
    assert member.commit(at(1)).outcome is DONE


def test_a_partition_lost_before_the_worker_has_heard_of_it_can_be_committed_when_it_comes_back(log: KafkaLog) -> None:
    member = log.join("g", [("t",)])
    settled(member)
    member._consumer._revoked(None, [Place("t", 0)])
    assert member.assignment() == {T1}
    for _ in range(2):
        member._consumer.ownership.give({T0})
        member._consumer._lost(None, [Place("t", 0)])
    member._consumer.ownership.give({T0})
    assert member.assignment() == {T0, T1}
    assert member.commit(at(1)).outcome is DONE


def test_a_member_behind_the_group_whose_records_were_deleted_waits_for_the_group(log: KafkaLog) -> None:
    """Its partition is another member's by now, which has deleted what it has processed; the group will say so."""
    member = log.join("g", [("t",)])
    settled(member)
    log.append(T0, rows(b"a", b"b", b"c"))
    assert member.commit(at(3, 0)).outcome is DONE  # as the other member would
    log.delete_before(T0, 3)
    member.seek(T0, 0)
    assert [member.poll(10, 0.1) for _ in range(10)] == [[]] * 10


def test_topics_read_together_must_have_equal_numbers_of_partitions(log: KafkaLog) -> None:
    log.create(Topic("three", 3))
    with pytest.raises(LogError, match="t has 2, three has 3"):
        log.join("g", [("t", "three")])


def test_the_error_for_a_too_large_record_names_the_setting(log: KafkaLog) -> None:
    log.create(Topic("small", 1, {"max.message.bytes": "1000"}))
    small = TopicPartition("small", 0)
    with pytest.raises(LogError, match=r"MSG_SIZE_TOO_LARGE.*max\.message\.bytes"):
        log.append(small, Columns([None], [b"x" * 5000], [1]))
    member = log.join("g", [("t",)])
    settled(member)
    member.send(small, Columns([None], [b"x" * 5000], [1]))
    with pytest.raises(RecordTooLarge, match=r"small/0 was not written: MSG_SIZE_TOO_LARGE.*max\.message\.bytes"):
        member.commit(at(1))
    member.abort()
    with pytest.raises(RecordTooLarge, match=r"MSG_SIZE_TOO_LARGE.*kafka\.message\.max\.bytes"):
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
def test_a_cluster_without_the_newer_protocol_is_joined_with_the_classic_one(tmp_path: Path) -> None:
    old = Cluster(tmp_path)
    url = f"kafka://{old.up(port=0, config={'group.coordinator.rebalance.protocols': 'classic'})}"
    try:
        log = open_log(url)
        log.create(Topic("t", 2))
        member = log.join("g", [("t",)])
        assert isinstance(member, KafkaMember)
        assert (settled(member), member._consumer.protocol) == ([{"t/0", "t/1"}], "classic")
        log.close()
    finally:
        for node in old.nodes():
            node.signal(signal.SIGKILL)


def test_a_turn_that_takes_too_long_commits_nothing_and_work_continues(
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
