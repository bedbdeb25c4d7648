"""streamtopo groups: members, committed positions, ends and lags."""

from __future__ import annotations

import json

import pytest

from streamtopo.logs import Log, Topic
from streamtopo.records import Position, TopicPartition
from tests.cli.conftest import Run
from tests.logs.records import numbered

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def member(log: Log) -> str:
    """A member of a group that has processed a part of the first of two partitions; its id."""
    log.create(Topic("t", 2))
    log.append(T0, numbered(5))
    member = log.join("g", [("t",)])
    member.assignment()
    member.commit({T0: Position(2)})
    return member.id  # type: ignore[attr-defined, no-any-return]


def test_list_shows_members_and_lag(run: Run, member: str) -> None:
    assert run("groups", "list").stdout == "g\t1\t2\t3\n"
    assert json.loads(run("groups", "list", "--json").stdout) == [
        {"group": "g", "members": 1, "partitions": 2, "lag": 3}
    ]


def test_the_lag_is_unknown_before_the_first_commit(run: Run, log: Log) -> None:
    """Nothing is processed yet, so 0 would be wrong."""
    log.create(Topic("t", 2))
    member = log.join("g", [("t",)])
    member.assignment()
    assert run("groups", "list").stdout == "g\t1\t2\t0\n"
    log.append(T0, numbered(5))
    assert run("groups", "list").stdout == "g\t1\t2\t-\n"
    assert json.loads(run("groups", "list", "--json").stdout)[0]["lag"] is None


def test_describe_shows_each_partition(run: Run, member: str) -> None:
    assert run("groups", "describe", "g").stdout.splitlines() == [
        f"g: 1 member, {member}",
        f"t\t0\t2\t5\t3\t{member}",
        f"t\t1\t-\t0\t-\t{member}",
    ]
    assert json.loads(run("groups", "describe", "g", "--json").stdout) == {
        "group": "g",
        "members": [member],
        "partitions": [
            {"topic": "t", "partition": 0, "committed": 2, "end": 5, "lag": 3, "owner": member},
            {"topic": "t", "partition": 1, "committed": None, "end": 0, "lag": None, "owner": member},
        ],
    }


def test_a_group_without_members_is_kept(run: Run, log: Log) -> None:
    log.create(Topic("t", 1))
    member = log.join("g", [("t",)])
    member.assignment()
    member.commit({T0: Position(0)})
    member.leave()
    assert run("groups", "describe", "g").stdout == "g: 0 members\nt\t0\t0\t0\t0\t-\n"


def test_an_unknown_group_is_an_error(run: Run, log: Log) -> None:
    result = run("groups", "describe", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith('Error: there is no group "x" in embedded:.streamtopo')
