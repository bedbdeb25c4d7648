"""streamtopo topics: list, create, describe, delete, plan."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from streamtopo.logs import Log, Topic
from streamtopo.records import Columns, TopicPartition
from tests.cli.conftest import Run, Start, on_terminal
from tests.logs.records import rows

NO_LOG = 'there is no log at "embedded:.streamtopo" yet'


@pytest.mark.parametrize("command", [("topics", "list"), ("groups", "list")])
def test_without_a_log_a_list_is_empty_and_says_so(command: tuple[str, ...], run: Run, folder: Path) -> None:
    result = run(*command)
    assert (result.exit_code, result.stdout) == (0, "")
    assert (
        result.stderr == f"{NO_LOG}; it is created with its first topic: streamtopo topics create NAME --partitions 4\n"
    )
    assert run(*command, "--json").stdout == "[]\n"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "command", [("topics", "describe", "t"), ("topics", "delete", "t"), ("produce", "t"), ("consume", "t")]
)
def test_without_a_log_other_commands_fail(command: tuple[str, ...], run: Run, folder: Path) -> None:
    result = run(*command)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        f"Error: {NO_LOG}; start a worker, which creates it, or give another one with --log, or create it: "
        "streamtopo topics create"
    )
    assert list(folder.iterdir()) == []


def test_create_creates_the_log_too(run: Run, log: Log) -> None:
    result = run(
        "topics", "create", "t", "--partitions", "1", "--config", "cleanup.policy=compact", "--config", "a=b=c"
    )
    assert (result.exit_code, result.stdout) == (0, 'topic "t" created: 1 partition in embedded:.streamtopo\n')
    assert log.topics()["t"][:3] == ("t", 1, {"cleanup.policy": "compact", "a": "b=c"})


def test_creating_a_topic_twice_changes_nothing(run: Run) -> None:
    command = ("topics", "create", "t", "--partitions", "2")
    assert run(*command).exit_code == 0
    again, more, other = run(*command), run(*command[:-1], "3"), run(*command, "--config", "retention.ms=5")
    assert again.stdout == 'topic "t" exists already: 2 partitions in embedded:.streamtopo\n'
    assert (more.exit_code, other.exit_code) == (1, 1)
    assert more.stderr == 'Error: topic "t" exists with 2 partitions, not 3; delete it first, or create it with 2\n'
    assert "exists with the config {}, not {'retention.ms': '5'}" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["t"], 2, "Missing option '--partitions'"),
        (["t", "--partitions", "0"], 2, "0 is not in the range 1<=x<=10000"),
        (["t", "--partitions", "100000000"], 2, "100000000 is not in the range 1<=x<=10000"),
        (["t", "--partitions", "1", "--config", "compact"], 2, '"compact" is not KEY=VALUE'),
        (["t/u", "--partitions", "1"], 1, 'topic "t/u" is not a legal name'),
        (["t", "--partitions", "1", "--config", "retention.ms=1d"], 1, "a value that is not a number"),
    ],
)
def test_create_refuses_invalid_topics(arguments: list[str], code: int, said: str, run: Run) -> None:
    result = run("topics", "create", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr


def test_list_is_sorted(run: Run, log: Log) -> None:
    log.create(Topic("b", 2, {"cleanup.policy": "compact", "retention.ms": "-1"}))
    log.create(Topic("a", 1))
    assert run("topics", "list").stdout == "a\t1\t-\nb\t2\tcleanup.policy=compact, retention.ms=-1\n"
    assert json.loads(run("topics", "list", "--json").stdout) == [
        {"topic": "a", "partitions": 1, "config": {}},
        {"topic": "b", "partitions": 2, "config": {"cleanup.policy": "compact", "retention.ms": "-1"}},
    ]


def test_describe_shows_where_partitions_start_and_end(run: Run, log: Log) -> None:
    log.create(Topic("t", 2, {"cleanup.policy": "compact"}))
    log.append(TopicPartition("t", 1), rows(b"a", b"b", b"c"))
    log.delete_before(TopicPartition("t", 1), 2)
    assert run("topics", "describe", "t").stdout == "t: 2 partitions, cleanup.policy=compact\n0\t0\t0\n1\t2\t3\n"
    assert json.loads(run("topics", "describe", "t", "--json").stdout) == {
        "topic": "t",
        "partitions": [{"partition": 0, "start": 0, "end": 0}, {"partition": 1, "start": 2, "end": 3}],
        "config": {"cleanup.policy": "compact"},
    }


def test_delete_deletes_the_topic(run: Run, log: Log) -> None:
    log.create(Topic("t", 2))
    assert run("topics", "delete", "t").stdout == 'topic "t" deleted from embedded:.streamtopo\n'
    assert log.topics() == {}


def test_delete_takes_many_names_and_deletes_all_or_none(run: Run, log: Log) -> None:
    for name in ("a", "b", "c"):
        log.create(Topic(name, 1))
    assert run("topics", "delete", "a", "nothing").exit_code == 1
    assert run("topics", "delete", "a", "b").stdout.count("deleted from") == 2
    assert [*log.topics()] == ["c"]


def test_compact_keeps_the_last_record_of_each_key(run: Run, log: Log) -> None:
    log.create(Topic("t", 1, {"cleanup.policy": "compact"}))
    log.create(Topic("events", 1))
    log.append(TopicPartition("t", 0), Columns([b"a", b"a"], [b"old", b"new"], [0, 0]))
    assert run("topics", "compact", "t", "--wipe").stdout == 'topic "t" compacted\n'
    assert log.read(TopicPartition("t", 0), 0, 10).columns.values == [b"new"]
    assert 'topic "events" is not compacted: ' in run("topics", "compact", "t", "events").stderr


LIST, CREATE = (
    "list the topics: streamtopo topics list",
    "create it: streamtopo topics create {} --partitions 4",
)


@pytest.mark.parametrize(
    ("command", "hint"),
    [("topics describe", LIST), ("topics delete", LIST), ("consume", LIST), ("produce", CREATE)],
)
def test_an_unknown_topic_is_an_error_with_a_suggestion(command: str, hint: str, run: Run, log: Log) -> None:
    log.create(Topic("sentences", 1))
    near, far = run(*command.split(), "sentence"), run(*command.split(), "x")
    assert (near.exit_code, far.exit_code) == (1, 1)
    assert near.stderr == (
        'Error: there is no topic "sentence" in embedded:.streamtopo; did you mean "sentences"? '
        f"If not, {hint.format('sentence')}\n"
    )
    assert far.stderr == f'Error: there is no topic "x" in embedded:.streamtopo; {hint.format("x")}\n'


@pytest.mark.parametrize("command", ["topics describe", "consume", "produce", "groups describe"])
def test_a_suggested_command_is_for_the_log_that_was_given(command: str, run: Run, log: Log) -> None:
    given = run(*command.split(), "x", "--log", "embedded:.streamtopo?synchronous=normal")
    assert given.stderr.endswith(" --log 'embedded:.streamtopo?synchronous=normal'\n")
    missing = run(*command.split(), "x", "--log", "embedded:other")
    assert missing.stderr.endswith("streamtopo topics create NAME --partitions 4 --log embedded:other\n")


# -- plan

REPARTITION = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "9223372036854775807",
}
CHANGELOG = {
    "cleanup.policy": "compact",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "9223372036854775807",
}


def lines(run: Run, *options: str, app: str = "apps.wordcount") -> list[list[str]]:
    result = run("topics", "plan", app, *options)
    assert result.exit_code == 0, result.output
    return [line.split("\t") for line in result.stdout.splitlines()]


def test_a_plan_in_an_empty_directory_creates_nothing(run: Run, folder: Path) -> None:
    assert [line[:4] for line in lines(run)] == [
        ["sentences", "source", "4", "will be created"],
        ["word-counts", "sink", "4", "will be created"],
        ["wordcount-counts-repartition", "repartition", "4", "will be created"],
        ["wordcount-counts-changelog", "changelog", "4", "will be created"],
    ]
    assert list(folder.iterdir()) == []


def test_a_plan_without_permission_to_create_topics_says_which_are_missing(run: Run) -> None:
    assert [line[2:4] for line in lines(run, "--create-topics", "0")] == [["-", "missing"]] * 2 + [
        ["-", "will be created"]
    ] * 2
    assert {line[3] for line in lines(run, "--no-create")} == {"missing"}
    assert {tuple(line[2:4]) for line in lines(run, "--create-topics", "7")} == {("7", "will be created")}


def test_a_plan_with_existing_sources_has_partition_counts(run: Run, log: Log) -> None:
    log.create(Topic("sentences", 3))
    log.create(Topic("wordcount-counts-changelog", 3, CHANGELOG))
    assert json.loads(run("topics", "plan", "apps.wordcount", "--json").stdout) == [
        {"topic": "sentences", "kind": "source", "partitions": 3, "config": {}, "state": "exists"},
        {"topic": "word-counts", "kind": "sink", "partitions": 4, "config": {}, "state": "will be created"},
        {
            "topic": "wordcount-counts-repartition",
            "kind": "repartition",
            "partitions": 3,
            "config": REPARTITION,
            "state": "will be created",
        },
        {
            "topic": "wordcount-counts-changelog",
            "kind": "changelog",
            "partitions": 3,
            "config": CHANGELOG | {"delete.retention.ms": "600000"},
            "state": "exists",
        },
    ]


def test_a_plan_shows_an_internal_topic_that_does_not_fit(run: Run, log: Log) -> None:
    log.create(Topic("sentences", 3))
    log.create(Topic("wordcount-counts-repartition", 2))
    log.create(Topic("wordcount-counts-changelog", 3))
    assert [line[:4] for line in lines(run)[2:]] == [
        ["wordcount-counts-repartition", "repartition", "3", "exists with 2 partitions"],
        ["wordcount-counts-changelog", "changelog", "3", "exists with cleanup.policy=delete"],
    ]


def test_a_plan_knows_patterns_and_topics_that_are_read_and_written(run: Run, log: Log, folder: Path) -> None:
    app = folder / "patterns_application.py"
    app.write_text(
        "import re\nfrom streamtopo import Topology\n"
        "topology = Topology('x').add_source('in', re.compile('in-.*')).add_source('back', 'out')"
        ".add_sink('to', 'out', 'in')\n"
    )
    for name in ("in-1", "in-2", "in"):
        log.create(Topic(name, 1))
    assert [line[:4] for line in lines(run, app=str(app))] == [
        ["in-1", "source", "1", "exists"],
        ["in-2", "source", "1", "exists"],
        ["out", "source and sink", "4", "will be created"],
    ]


def test_verify_lists_damage_and_fails_if_there_is_any(run: Run, log: Log, folder: Path) -> None:
    log.create(Topic("t", 1))
    log.create(Topic("u", 1))
    for number in range(2):
        log.append(TopicPartition("t", 0), rows(b"%d" % number))
    result = run("topics", "verify")
    assert (result.exit_code, result.stdout) == (0, "read 2 batches with 2 records that are intact\n")
    with closing(sqlite3.connect(folder / ".streamtopo" / "log.db")) as connection, connection:
        connection.execute("UPDATE batches SET appended = 1 WHERE last_offset = 0")
    result = run("topics", "verify")
    assert (result.exit_code, result.stdout) == (1, "t\t0\t0\t0\tits checksum is wrong\n")
    assert result.stderr.startswith(
        "damage in 1 place; read 1 batch with 1 record that are intact; restore a copy of the log, or"
    )
    found = json.loads(run("topics", "verify", "t", "--json").stdout)
    assert found == {
        "damages": [{"problem": "its checksum is wrong", "topic": "t", "partition": 0, "first": 0, "last": 0}],
        "batches": 1,
        "records": 1,
        "unchecked": 0,
    }
    assert run("topics", "verify", "u").exit_code == 0
    assert 'there is no topic "nope"' in run("topics", "verify", "nope").stderr
    for url in ("kafka://127.0.0.1:1", "/a/path"):
        error = f'only an embedded log can be verified (--log embedded:DIRECTORY), not "{url}"'
        assert error in run("topics", "verify", "--log", url).stderr


# -- on a terminal


def test_on_a_terminal_a_config_is_below_its_topic_and_no_line_is_too_long(
    start: Start, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    log.create(Topic("sentences", 4))
    log.create(Topic("wordcount-counts-changelog", 4, CHANGELOG))
    assert on_terminal(start, "topics", "list") == [
        "topic                       partitions",
        "sentences                   4",
        "wordcount-counts-changelog  4",
        "    cleanup.policy=compact, message.timestamp.type=CreateTime,",
        "    message.timestamp.after.max.ms=9223372036854775807",
    ]
    assert on_terminal(start, "topics", "plan", "apps.wordcount") == [
        "topic                         kind         partitions  state",
        "sentences                     source       4           exists",
        "word-counts                   sink         4           will be created",
        "wordcount-counts-repartition  repartition  4           will be created",
        "    cleanup.policy=delete, retention.ms=-1, segment.bytes=52428800,",
        "    message.timestamp.type=CreateTime, message.timestamp.after.max.ms=9223372036854775807",
        "wordcount-counts-changelog    changelog    4           exists",
        "    cleanup.policy=compact, message.timestamp.type=CreateTime,",
        "    message.timestamp.after.max.ms=9223372036854775807, delete.retention.ms=600000",
    ]
