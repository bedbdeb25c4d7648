"""What every log tells about its groups: who is alive and works on what, and where each group stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamtopo.errors import LogError
from streamtopo.logs import GroupProgress, GroupState, Outcome, Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Position, TopicPartition
from tests.logs.child import Child, until
from tests.logs.records import T0, T1, AnyLog, OwnLog, at, join, numbered, settled


def test_a_new_log_has_no_groups(log: AnyLog) -> None:
    assert log.groups() == {}


def test_members_are_shown_with_what_they_own(log: AnyLog) -> None:
    first, second = join(log), join(log)
    settled(first, second)
    state = log.groups()["g"]
    assert state.members.keys() == {first.id, second.id}
    assert {first.id: first.assignment(), second.id: second.assignment()} == state.members
    assert state.members[first.id] | state.members[second.id] == {T0, T1}
    assert state.positions == {}


def test_where_members_answer_can_be_seen(log: AnyLog) -> None:
    silent, answering = join(log), log.join("g", [("t",)], address="http://here:1")
    settled(silent, answering)
    state = log.group("g")
    assert state == log.groups()["g"]
    assert state is not None
    assert state.addresses == {answering.id: "http://here:1"}
    assert log.group("other") is None


def test_a_member_without_work_is_a_member(own_log: OwnLog) -> None:
    idle = join(own_log, "absent")
    settled(idle)
    assert own_log.groups() == {"g": GroupState({idle.id: frozenset()}, {})}


def test_partitions_go_to_those_alone_who_want_them(own_log: OwnLog) -> None:
    """Also when a member that wants others, or nothing, would have been next."""
    own_log.create(Topic("u", 2))
    members = [join(own_log), join(own_log, "u"), join(own_log, "absent"), own_log.join("g", [])]
    settled(*members)
    assert [member.assignment() for member in members] == [
        {T0, T1},
        {TopicPartition("u", 0), TopicPartition("u", 1)},
        set(),
        set(),
    ]


def test_positions_stay_when_the_members_have_left(log: AnyLog) -> None:
    member = join(log)
    settled(member)
    positions = {T0: Position(3, "remembered"), T1: Position(0)}
    assert member.commit(positions).outcome is Outcome.DONE
    member.leave()
    until(lambda: log.groups() == {"g": GroupState({}, positions)})  # Kafka shows them a moment after the commit


def test_a_group_that_left_nothing_is_gone(log: AnyLog) -> None:
    member = join(log)
    settled(member)
    member.leave()
    assert log.groups() == {}


def test_groups_come_by_name_each_with_its_own(log: AnyLog) -> None:
    for place, name in enumerate(["b", "a"]):
        member = join(log, group=name)
        settled(member)
        member.commit(at(place, place))
        member.leave()
    assert {name: state.positions for name, state in log.groups().items()} == {"a": at(1, 1), "b": at(0, 0)}
    assert list(log.groups()) == ["a", "b"]


def test_a_deleted_topic_leaves_no_position(log: AnyLog) -> None:
    log.create(Topic("u", 1))
    member = join(log, "t", "u")
    settled(member)
    member.commit({partition: Position(0) for partition in member.assignment()})
    log.delete("t")
    until(lambda: [str(partition) for partition in log.groups()["g"].positions] == ["u/0"])


def test_a_group_without_members_stands_where_it_is_placed(log: AnyLog) -> None:
    log.place_group("g", at(5, 6))
    assert log.groups() == {"g": GroupState({}, at(5, 6))}
    log.place_group("g", {T1: Position(1)})
    member = join(log)
    settled(member)
    assert member.committed([T0, T1]) == {T1: Position(1)}
    member.commit({T1: Position(2, "remembered")})
    member.leave()
    log.place_group("g", at(0, 0))
    assert log.groups()["g"].positions == at(0, 0)
    log.place_group("g", {})
    assert log.groups() == {}


def test_the_progress_of_a_group(log: AnyLog) -> None:
    log.append(T0, numbered(3))
    assert log.progress("g", [T0, T1]) == {T0: GroupProgress(0, 3), T1: GroupProgress(0, 0)}
    log.delete_before(T0, 2)
    assert log.progress("g", [T0]) == {T0: GroupProgress(2, 3)}  # there is no position yet
    log.place_group("g", at(3, 0))
    log.append(T1, numbered(1))
    assert log.progress("g", [T0, T1]) == {T0: GroupProgress(3, 3), T1: GroupProgress(0, 1)}
    with pytest.raises(LogError, match="absent"):
        log.progress("g", [TopicPartition("absent", 0)])


def test_a_group_with_members_alive_is_left_where_it_is(log: AnyLog) -> None:
    member = join(log)
    settled(member)
    member.commit(at(3, 4))
    with pytest.raises(LogError, match=r'group "g" has 1 member alive, .*; stop its workers first'):
        log.place_group("g", at(0, 0))
    assert log.groups()["g"].positions == at(3, 4)


def test_a_killed_process_is_not_a_member_any_more(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log")
    log.create(Topic("t", 2))
    child = Child(log.path)
    assert child("member.id if settled(member) else ''") in log.groups()["g"].members
    child.kill()
    assert log.groups() == {}
    log.close()
