"""What every log tells about its groups: who is alive and works on what, and where each group stands."""

from __future__ import annotations

from pathlib import Path

from streamtopo.logs import GroupState, Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Position, TopicPartition
from tests.logs.child import Child, until
from tests.logs.records import T0, T1, AnyLog, OwnLog, at, join, settled


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
    member.commit(positions)
    member.leave()
    assert log.groups() == {"g": GroupState({}, positions)}


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


def test_a_killed_process_is_no_member_any_more(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log")
    log.create(Topic("t", 2))
    child = Child(log.path)
    assert child("member.id if settled(member) else ''") in log.groups()["g"].members
    child.kill()
    assert log.groups() == {}
    log.close()
