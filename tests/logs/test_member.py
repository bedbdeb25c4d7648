"""What every log promises about groups: sharing, reading, and commits that are all or nothing."""

from __future__ import annotations

import threading
import time

import pytest

from streamtopo.errors import LogError
from streamtopo.logs import Topic
from streamtopo.records import Position, TopicPartition
from tests.logs.child import until
from tests.logs.records import (
    DONE,
    NOT_DONE,
    T0,
    T1,
    AnyLog,
    OwnLog,
    at,
    drain,
    join,
    leave,
    numbered,
    own_join,
    reader,
    rows,
    settled,
    values,
)

BOTH = {"t/0", "t/1"}

# -- commits


def test_what_is_sent_shows_only_after_the_commit(log: AnyLog) -> None:
    member = join(log)
    settled(member)
    member.send(T0, rows(b"a"))
    member.send(T1, rows(b"b"))
    member.send(T0, rows(b"c"))
    assert (values(log, pending=True), values(log, T1, pending=True)) == ([], [])
    committed = member.commit(at(7))
    assert (committed.outcome, committed.ends) == (DONE, {T0: 2, T1: 1})
    assert (values(log), values(log, T1)) == ([b"a", b"c"], [b"b"])
    assert member.commit({}).ends == {}


def test_what_is_aborted_never_shows(log: AnyLog) -> None:
    member = join(log)
    settled(member)
    member.send(T0, rows(b"a"))
    member.abort()
    member.send(T0, rows(b"b"))
    assert member.commit(at(1)).outcome is DONE
    assert values(log) == [b"b"]


def test_positions_outlive_the_member_with_what_the_task_remembers(log: AnyLog) -> None:
    first = join(log)
    settled(first)
    first.commit({T0: Position(3, '{"time": 1}'), T1: Position(1)})
    first.commit({T0: Position(5, '{"time": 2}')})
    first.leave()
    assert join(log).committed([T0, T1]) == {T0: Position(5, '{"time": 2}'), T1: Position(1)}
    assert join(log, group="other").committed([T0]) == {}


def test_a_member_that_was_considered_dead_commits_nothing_and_learns_why(own_log: OwnLog) -> None:
    zombie, other = own_join(own_log), own_join(own_log)
    assert zombie.assignment() == {T0, T1}
    assert zombie.commit(at(1, 1)).outcome is DONE
    zombie.evict()
    assert other.assignment() == {T0, T1}
    zombie.send(T0, rows(b"twice"))
    committed = zombie.commit(at(2, 2))
    assert (committed.outcome, committed.ends) == (NOT_DONE, {})
    assert committed.reason == "t/0 belongs to another member now"
    assert (values(own_log), other.committed([T0, T1])) == ([], at(1, 1))
    zombie.abort()
    assert other.commit(at(3, 3)).outcome is DONE


def test_a_member_that_was_considered_dead_may_find_that_its_records_were_deleted(own_log: OwnLog) -> None:
    """The next owner has processed them. The member learns what it has lost, and takes its share again."""
    zombie, other = own_join(own_log), own_join(own_log)
    own_log.append(T0, numbered(4))
    assert zombie.assignment() == {T0, T1}
    zombie.seek(T0, 0)
    zombie.seek(T1, 0)
    zombie.evict()
    assert other.assignment() == {T0, T1}
    own_log.delete_before(T0, 3)
    assert zombie.poll(10, 0) == []
    assert zombie.assignment() == set()
    other.leave()
    assert zombie.assignment() == {T0, T1}
    zombie.seek(T0, 3)
    assert [list(batch.offsets) for batch in zombie.poll(10, 0)] == [[3]]
    zombie.seek(T0, 2)
    with pytest.raises(LogError, match="offset 2 of t/0 is not in the log"):
        zombie.poll(10, 0)


def test_a_position_that_is_another_members_stops_the_whole_commit(own_log: OwnLog) -> None:
    one, two = join(own_log), join(own_log)
    mine, theirs = settled(one, two)
    assert mine | theirs == BOTH
    one.send(T0, rows(b"a"))
    assert one.commit(at(1, 1)).outcome is NOT_DONE
    assert (values(own_log), one.committed([T0, T1])) == ([], {})


def test_sending_to_a_topic_that_is_not_there_is_an_error(log: AnyLog) -> None:
    member = join(log)
    with pytest.raises(LogError, match="partition nope/0 does not exist; create the topic first"):
        member.send(TopicPartition("nope", 0), rows(b"a"))


def test_a_topic_that_vanished_before_the_commit_stops_all_of_it(own_log: OwnLog) -> None:
    own_log.create(Topic("out", 1))
    member = join(own_log)
    settled(member)
    member.send(T0, rows(b"a"))
    member.send(TopicPartition("out", 0), rows(b"a"))
    own_log.delete("out")
    with pytest.raises(LogError, match="partition out/0 does not exist"):
        member.commit(at(1, 1))
    assert (values(own_log), member.committed([T0])) == ([], {})


# -- sharing


def test_work_is_shared_and_handed_over_without_a_gap(own_log: OwnLog) -> None:
    one = join(own_log)
    assert settled(one) == [BOTH]
    two = join(own_log)
    assert two.assignment() == set()
    kept = one.assignment()
    assert len(kept) == 1
    assert two.assignment() == set()
    assert one.commit(at(4, 4)).outcome is DONE
    one.release({T0, T1} - kept)
    assert two.assignment() == {T0, T1} - kept
    assert two.committed(two.assignment()) == {part: Position(4) for part in {T0, T1} - kept}


def test_who_leaves_leaves_its_work_to_the_others(log: AnyLog) -> None:
    one, two = join(log), join(log)
    settled(one, two)
    two.leave()
    assert settled(one) == [BOTH]


def test_what_was_lost_is_reported_before_it_is_taken_again(own_log: OwnLog) -> None:
    member = own_join(own_log)
    assert member.assignment() == {T0, T1}
    member.evict()
    assert member.assignment() == set()
    assert member.assignment() == {T0, T1}
    assert member.commit(at(1, 1)).outcome is DONE


def test_topics_of_one_tuple_go_to_one_member(log: AnyLog) -> None:
    log.create(Topic("u", 2))
    members = [log.join("g", [("t", "u")]) for _ in range(2)]
    assert sorted(map(sorted, settled(*members))) == [["t/0", "u/0"], ["t/1", "u/1"]]


def test_a_member_can_change_what_it_subscribes_to(own_log: OwnLog) -> None:
    own_log.create(Topic("u", 1))
    member = join(own_log)
    assert settled(member) == [BOTH]
    member.subscribe([("t",), ("u",), ("later",)])
    assert settled(member) == [BOTH | {"u/0"}]
    own_log.create(Topic("later", 1))
    assert settled(member) == [BOTH | {"u/0", "later/0"}]
    member.subscribe([("u",)])
    assert member.assignment() == {TopicPartition("u", 0)}


def test_groups_do_not_see_each_other(log: AnyLog) -> None:
    assert settled(join(log, group="a"), join(log, group="b")) == [BOTH, BOTH]


def test_ten_members_share_evenly(own_log: OwnLog) -> None:
    own_log.create(Topic("wide", 25))
    members = [join(own_log, "wide") for _ in range(10)]
    shares = settled(*members)
    assert sorted(map(len, shares)) == [2] * 5 + [3] * 5
    assert len(set().union(*shares)) == 25
    leave(members[:5])
    assert sorted(map(len, settled(*members[5:]))) == [5] * 5


def test_a_topic_created_again_is_another_topic(own_log: OwnLog) -> None:
    member = join(own_log)
    settled(member)
    member.commit(at(9, 9))
    own_log.delete("t")
    own_log.create(Topic("t", 2))
    assert member.commit(at(10, 10)).outcome is NOT_DONE
    assert member.assignment() == set()
    assert member.assignment() == {T0, T1}
    assert member.committed([T0, T1]) == {}


# -- reading


def test_nothing_is_read_before_the_first_seek(log: AnyLog) -> None:
    log.append(T0, numbered(3))
    member = join(log)
    settled(member)
    assert (member.poll(10, 0), member.ends()) == ([], {})
    member.seek(T0, 1)
    assert (drain(member), member.ends()) == ([b"1", b"2"], {T0: 3})
    member.seek(T0, 0)
    assert drain(member) == [b"0", b"1", b"2"]


def test_a_poll_keeps_to_its_limit_and_reads_everything_once(own_log: OwnLog) -> None:
    for number in range(7):
        own_log.append(T0, rows(b"%d" % number, b"."))
    member = reader(own_log, T0)
    polls = [member.poll(3, 0) for _ in range(6)]
    assert [sum(len(batch.offsets) for batch in batches) for batches in polls] == [3, 3, 3, 3, 2, 0]
    offsets = [offset for batches in polls for batch in batches for offset in batch.offsets]
    assert offsets == list(range(14))


def test_a_poll_shares_its_limit_between_partitions(own_log: OwnLog) -> None:
    own_log.append(T0, numbered(1000))
    own_log.append(T1, numbered(10))
    member = reader(own_log, T0, T1)
    first = [batch for _ in range(2) for batch in member.poll(8, 0)]
    assert {batch.source for batch in first} == {T0, T1}


def test_paused_partitions_are_not_read(own_log: OwnLog) -> None:
    own_log.append(T0, rows(b"a"))
    own_log.append(T1, rows(b"b"))
    member = reader(own_log, T0, T1)
    assert [batch.source for batch in member.poll(10, 0, {T0})] == [T1]
    assert member.poll(10, 0, {T0}) == []
    assert [batch.source for batch in member.poll(10, 0)] == [T0]


def test_a_poll_waits_for_what_comes_and_no_longer(own_log: OwnLog) -> None:
    member = reader(own_log, T0)
    start = time.monotonic()
    assert member.poll(10, 0.03) == []
    assert time.monotonic() - start >= 0.03
    threading.Timer(0.02, own_log.append, (T0, rows(b"a"))).start()
    assert [batch.columns.values for batch in member.poll(10, 10)] == [[b"a"]]
    assert time.monotonic() - start < 5


def test_a_members_own_commits_are_news_to_it(log: AnyLog) -> None:
    member = join(log)
    settled(member)
    member.seek(T0, 0)
    assert member.poll(10, 0) == []
    for number in range(3):
        member.send(T0, rows(b"%d" % number))
        member.commit(at(number))
        assert drain(member) == [b"%d" % number]
        assert member.ends() == {T0: log.end(T0)}


def test_a_member_stops_reading_what_it_released(log: AnyLog) -> None:
    log.append(T0, numbered(3))
    member = join(log)
    settled(member)
    member.seek(T0, 0)
    member.release([T0])
    assert member.poll(10, 0) == []


@pytest.mark.parametrize("offset", [1, 6])
def test_polling_after_the_end_or_before_the_start_is_an_error(log: AnyLog, offset: int) -> None:
    log.append(T0, numbered(5))
    log.delete_before(T0, 2)
    member = reader(log, T0)
    member.seek(T0, offset)
    with pytest.raises(LogError, match=rf"offset {offset} of t/0 is not in the log \(it has 2 to 5\)"):
        until(lambda: member.poll(10, 0))


def test_a_poll_that_fails_hands_nothing_out_and_loses_nothing(own_log: OwnLog) -> None:
    own_log.append(T0, numbered(5))
    own_log.append(T1, numbered(3))
    member = reader(own_log, T0, T1)
    read = [batch.columns.values for batch in member.poll(2, 0, {T1})]
    member.seek(T1, 9)
    for _ in range(2):
        with pytest.raises(LogError, match="offset 9 of t/1 is not in the log"):
            member.poll(2, 0)
    member.seek(T1, 3)
    assert (read, drain(member, 2)) == ([[b"0", b"1"]], [b"2", b"3", b"4"])


def test_a_topic_deleted_under_its_reader_is_an_error(own_log: OwnLog) -> None:
    own_log.append(T0, numbered(5))
    member = reader(own_log, T0)
    member.poll(2, 0)
    own_log.delete("t")
    for use in (lambda: member.poll(2, 0), member.ends, lambda: member.send(T0, rows(b"a"))):
        with pytest.raises(LogError, match="partition t/0 does not exist"):
            use()
