"""streamtopo groups: members, committed positions, ends and lags."""

from __future__ import annotations

import json

import pytest

from streamtopo.logs import Log, Topic
from streamtopo.records import Position, TopicPartition
from tests.cli.conftest import Run
from tests.engine.test_held_back import Shop, partition_of, per_hour
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
        f"t\t0\t2\t5\t3\t{member}\t-",
        f"t\t1\t-\t0\t-\t{member}\t-",
    ]
    assert json.loads(run("groups", "describe", "g", "--json").stdout) == {
        "group": "g",
        "members": [member],
        "partitions": [
            {"topic": "t", "partition": 0, "committed": 2, "end": 5, "lag": 3, "owner": member, "time": None},
            {"topic": "t", "partition": 1, "committed": None, "end": 0, "lag": None, "owner": member, "time": None},
        ],
    }


def test_a_group_without_members_is_kept(run: Run, log: Log) -> None:
    log.create(Topic("t", 1))
    member = log.join("g", [("t",)])
    member.assignment()
    member.commit({T0: Position(0)})
    member.leave()
    assert run("groups", "describe", "g").stdout == "g: 0 members\nt\t0\t0\t0\t0\t-\t-\n"


def test_an_unknown_group_is_an_error(run: Run, log: Log) -> None:
    result = run("groups", "describe", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith('Error: there is no group "x" in embedded:.streamtopo')


def test_describe_shows_what_time_waits_for(run: Run, log: Log) -> None:
    """Of two partitions, one has no records that have been read: its task has announced nothing."""
    shop, minute = Shop(per_hour("orders"), log=log), 60_000
    absent = partition_of(shop.there)
    shop.order(shop.here, 5 * minute)
    shop.run(shop.here)
    cells = [line.split("\t") for line in run("groups", "describe", "shop").stdout.splitlines()[1:]]
    assert {line[-1] for line in cells if line[0].endswith("-repartition")} == {"-", f"task 0_{absent}, not started"}
    shop.order(shop.there, 2 * minute)
    shop.run(shop.there, shop.here)
    shop.order(shop.here, 14 * minute)
    shop.run(shop.here)
    found = json.loads(run("groups", "describe", "shop", "--json").stdout)["partitions"]
    slowest = {"task": f"0_{absent}", "time": 2 * minute, "caught_up": True}
    assert {"time": 2 * minute, "seen": 14 * minute, "slowest": slowest} in [one["time"] for one in found]
    assert f"task 0_{absent}, 12 min behind\n" in run("groups", "describe", "shop").stdout


@pytest.mark.parametrize(
    "metadata", ["", "by another program", "[]", "{}", '{"time": 1, "origins": {"of": {"0": "!"}}}']
)
def test_positions_of_other_programs_say_nothing_about_time(run: Run, log: Log, metadata: str) -> None:
    log.create(Topic("t", 1))
    log.place_group("g", {T0: Position(0, metadata)})
    assert run("groups", "describe", "g").stdout == "g: 0 members\nt\t0\t0\t0\t0\t-\t-\n"
