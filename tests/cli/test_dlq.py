"""streamtopo dlq: dead letters are listed, shown, replayed once, and purged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamtopo.logs import Log, Topic
from streamtopo.records import Columns, TopicPartition
from tests.cli.conftest import Run, Start, on_terminal
from tests.dead_letters.test_letters import SPRING
from tests.dead_letters.writing import APP, LETTERS, failure, write_letters

AMOUNTS = TopicPartition("amounts", 0)
TRACE = (("trace", b"1"),)


@pytest.fixture
def letters(log: Log, folder: Path) -> Log:
    """Four letters of records of `amounts`, in two partitions."""
    (folder / "orders.py").write_text(APP)
    log.create(Topic("amounts", 2))
    write_letters(log, failure(10), failure(11, exception="orders.errors.BadAmount"), failure(12, own=TRACE))
    write_letters(log, failure(5, partition=1, exception="KeyError", node="look-up"), partition=1, start=3)
    return log


def listed(run: Run, *arguments: str) -> Any:
    result = run("dlq", "list", "orders", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def places(run: Run, *arguments: str) -> list[str]:
    return [f"{letter['partition']}/{letter['offset']}" for letter in listed(run, *arguments)["newest"]]


def written(log: Log, topic: str = "amounts") -> list[tuple[int, Any, Any, Any, Any]]:
    """The partition, key, value, time and headers of all records of a topic."""
    found = []
    for number in range(log.topics()[topic].partitions):
        columns = log.read(TopicPartition(topic, number), 0, 1000).columns
        headers = columns.headers or [()] * len(columns.keys)
        found += [(number, *row) for row in zip(columns.keys, columns.values, columns.timestamps, headers, strict=True)]
    return found


# -- list and show


def test_list_counts_by_node_and_exception_and_shows_the_newest_letters(run: Run, letters: Log) -> None:
    result = run("dlq", "list", "orders", "--max", "2")
    assert result.stderr == "dlq.orders: 4 dead letters\n"
    counts, newest = result.stdout.split("\n\n")
    assert counts.splitlines() == [
        "2\tto-cents\tValueError",
        "1\tto-cents\torders.errors.BadAmount",
        "1\tlook-up\tKeyError",
    ]
    cells = [line.split("\t") for line in newest.splitlines()]
    assert [[row[0], *row[2:]] for row in cells] == [
        ["1/0", "look-up", "KeyError", "bad amount 5", "amounts/1/5", "k3"],
        ["0/2", "to-cents", "ValueError", "bad amount 12", "amounts/0/12", "k2"],
    ]


def test_list_as_json(run: Run, letters: Log) -> None:
    found = listed(run)
    assert (found["topic"], found["letters"], found["replayed"]) == (LETTERS, 4, 0)
    assert found["counts"][0] == {"letters": 2, "node": "to-cents", "exception": "ValueError"}
    newest = found["newest"][1]
    assert (newest["key"], newest["value"], newest["encoding"]) == ("k2", 2, "int")
    assert newest["headers"] == [{"name": "trace", "value": "1"}]
    assert newest["source"] == {"topic": "amounts", "partition": 0, "offset": 12}
    assert newest["message"] == "bad amount 12"
    assert "stacktrace" not in newest


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (("--node", "look-up"), ["1/0"]),
        (("--exception", "ValueError"), ["0/2", "0/0"]),
        (("--exception", "BadAmount"), ["0/1"]),
        (("--exception", "Amount"), []),
        (("--exception", "orders.errors.BadAmount", "--node", "to-cents"), ["0/1"]),
        (("--topic", "amounts", "--key", "k0"), ["0/0"]),
        (("--topic", "elsewhere"), []),
        (("--since", "2023-11-14T22:13:21", "--until", "2023-11-14T22:13:23"), ["0/2", "0/1"]),
        (("--since", "2h"), []),
        (("--until", "2h", "--max", "1"), ["1/0"]),
    ],
)
def test_filters(run: Run, letters: Log, filters: tuple[str, ...], found: list[str]) -> None:
    assert places(run, *filters) == found


def test_a_key_that_is_a_number_is_found(run: Run, log: Log, folder: Path) -> None:
    (folder / "orders.py").write_text(APP.replace("key=str", "key=int"))
    log.create(Topic(LETTERS, 1))
    keys: list[bytes | None] = [number.to_bytes(8, "big") for number in (65, 66)]
    log.append(TopicPartition(LETTERS, 0), Columns(keys, [b"", b""], [0, 0], [failure(1), failure(2)]))
    assert places(run, "--key", "66") == ["0/1"]


def test_show_has_the_record_the_failure_and_the_traceback(run: Run, letters: Log) -> None:
    shown = run("dlq", "show", "orders", "0/2").stdout
    facts = dict(line.split(None, 1) for line in shown.partition("\n\n")[0].splitlines())
    assert facts["exception"] == "ValueError"
    assert (facts["source"], facts["key"], facts["value"]) == ("amounts/0/12", "k2", "2")
    assert facts["header"] == "trace: 1"
    assert shown.endswith('Traceback:\n  File "orders.py", line 31, in to_cents\nValueError: bad amount 12\n')


def test_show_finds_a_letter_by_the_place_of_its_record(run: Run, letters: Log) -> None:
    """If the record failed twice, it is the later letter."""
    assert json.loads(run("dlq", "show", "orders", "amounts/1/5", "--json").stdout)["key"] == "k3"
    write_letters(letters, failure(5, partition=1, exception="OSError"), partition=1, start=9)
    shown = json.loads(run("dlq", "show", "orders", "amounts/1/5", "--json").stdout)
    assert (shown["key"], shown["exception"], shown["partition"], shown["offset"]) == ("k9", "OSError", 1, 1)
    assert shown["stacktrace"].endswith("OSError: bad amount 5")


@pytest.mark.parametrize("place", ["0/3", "7/0", "amounts/0/5"])
def test_a_letter_that_does_not_exist_is_an_error(run: Run, letters: Log, place: str) -> None:
    result = run("dlq", "show", "orders", place)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f'Error: there is no dead letter {place} in "dlq.orders"')


def test_a_terminal_is_not_controlled_by_a_letter(start: Start, log: Log, folder: Path) -> None:
    (folder / "orders.py").write_text(APP)
    clear = "\x1b[2J"
    write_letters(log, failure(1, exception=clear, node=clear, topic=clear, MESSAGE=clear, PLACE=clear))
    for command in (("list", "orders"), ("show", "orders", "0/0")):
        shown = "\n".join(on_terminal(start, "dlq", *command))
        assert clear not in shown
        assert "\\x1b[2J" in shown


# -- replay


def test_records_are_replayed_as_they_were(run: Run, letters: Log) -> None:
    result = run("dlq", "replay", "orders")
    assert (result.stdout, result.stderr) == ("amounts\t4\n", "dlq.orders: 4 dead letters replayed\n")
    assert written(letters) == [
        (0, b"k0", bytes(8), 1_700_000_000_000, ()),
        (0, b"k1", b"\0\0\0\0\0\0\0\1", 1_700_000_001_000, ()),
        (0, b"k2", b"\0\0\0\0\0\0\0\2", 1_700_000_002_000, TRACE),
        (1, b"k3", b"\0\0\0\0\0\0\0\3", 1_700_000_003_000, ()),
    ]


def test_a_letter_is_replayed_once(run: Run, letters: Log) -> None:
    run("dlq", "replay", "orders", "--key", "k1")
    assert places(run) == ["1/0", "0/2", "0/0"]
    assert (listed(run)["replayed"], places(run, "--replayed")) == (1, ["1/0", "0/2", "0/1", "0/0"])
    assert "was replayed" in run("dlq", "show", "orders", "0/1").stdout
    run("dlq", "replay", "orders")
    assert run("dlq", "replay", "orders").stderr == "dlq.orders: 0 dead letters replayed\n"
    assert sorted(key for _, key, *_ in written(letters)) == [b"k0", b"k1", b"k2", b"k3"]


def test_again_replays_what_was_replayed_before(run: Run, letters: Log) -> None:
    run("dlq", "replay", "orders")
    run("dlq", "replay", "orders", "--again", "--at", "0/0")
    assert [key for _, key, *_ in written(letters)] == [b"k0", b"k1", b"k2", b"k0", b"k3"]


def test_a_dry_run_changes_nothing(run: Run, letters: Log) -> None:
    topics = letters.topics()
    replayed = run("dlq", "replay", "orders", "--dry-run", "--json")
    assert json.loads(replayed.stdout) == {"replayed": {"amounts": 4}, "refused": {}, "dry_run": True}
    purged = run("dlq", "purge", "orders", "--dry-run", "--json")
    assert json.loads(purged.stdout) == {"purged": 4, "dry_run": True}
    assert (letters.topics(), written(letters), len(places(run))) == (topics, [], 4)


def test_by_the_place_of_the_record_and_to_another_topic(run: Run, letters: Log) -> None:
    letters.create(Topic("fixed", 1))
    assert run("dlq", "replay", "orders", "--at", "amounts/1/5", "--to", "fixed").stdout == "fixed\t1\n"
    assert written(letters, "fixed") == [(0, b"k3", b"\0\0\0\0\0\0\0\3", 1_700_000_003_000, ())]
    assert written(letters) == []


def test_corrected_values_are_replayed_once(run: Run, letters: Log, folder: Path) -> None:
    lines = [json.loads(line) for line in run("dlq", "export", "orders", "--node", "to-cents").stdout.splitlines()]
    assert [(line["key"], line["value"]) for line in lines] == [("k0", 0), ("k1", 1), ("k2", 2)]
    corrected = [json.dumps({**line, "value": 5 * line["value"]}) for line in lines[1:]]
    (folder / "corrected.jsonl").write_text("\n".join(corrected))
    replayed = run("dlq", "replay", "orders", "--values", "corrected.jsonl")
    assert replayed.stdout == "amounts\t2\n"
    assert [(key, int.from_bytes(value, "big")) for _, key, value, _, _ in written(letters)] == [
        (b"k1", 5),
        (b"k2", 10),
    ]
    assert written(letters)[1][4] == TRACE
    again = run("dlq", "replay", "orders", "--values", "corrected.jsonl").stderr
    assert again.startswith("2 letters of the file not found: replayed before")
    assert len(written(letters)) == 2
    assert places(run) == ["1/0", "0/0"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"partition": 0, "offset": 1, "source": {"topic": "amounts"}, "value": "x"}', "the value does not fit"),
        ('{"partition": 0, "offset": 1, "value": 1}', "there is no 'source'; give lines of streamtopo dlq export"),
        ("k1:5", "expected a {"),
    ],
)
def test_a_value_that_does_not_fit_replays_nothing(run: Run, letters: Log, folder: Path, line: str, said: str) -> None:
    first = run("dlq", "export", "orders").stdout.splitlines()[0]
    (folder / "corrected.jsonl").write_text(f"{first}\n{line}\n")
    result = run("dlq", "replay", "orders", "--values", "corrected.jsonl")
    assert result.exit_code == 1
    assert "line 2: " in result.stderr
    assert said in result.stderr
    assert written(letters) == []


def test_letters_that_cannot_be_replayed_stay(run: Run, letters: Log) -> None:
    write_letters(letters, failure(1, CUT="2000000"), failure(2, topic="gone"), failure(3, CALL="a punctuation"))
    result = run("dlq", "replay", "orders")
    assert result.exit_code == 0
    assert sorted(result.stderr.splitlines()) == [
        "1 letter cannot be replayed: it is about a call, not a record",
        "1 letter cannot be replayed: the record was cut",
        '1 letter cannot be replayed: there is no topic "gone" (create it, or give --to)',
        "dlq.orders: 4 dead letters replayed",
    ]
    assert len(places(run)) == 3


def test_letters_of_spring_are_replayed(run: Run, log: Log) -> None:
    log.create(Topic("orders-dlt", 1))
    log.create(Topic("orders", 4))
    log.append(TopicPartition("orders-dlt", 0), Columns([b"k"], [b"v"], [9], [SPRING]))
    dlt = ("--dead-letter-topic", "orders-dlt")
    assert json.loads(run("dlq", "list", "-", *dlt, "--json").stdout)["letters"] == 1
    assert run("dlq", "replay", "-", *dlt).stdout == "orders\t1\n"
    assert written(log, "orders") == [(3, b"k", b"v", 1_700_000_000_000, ())]


def test_letters_of_several_programs_in_one_topic(run: Run, log: Log, folder: Path) -> None:
    (folder / "orders.py").write_text(APP)
    write_letters(log, failure(1), SPRING, (("no", b"failure"),))
    assert {count["exception"]: count["letters"] for count in listed(run)["counts"]} == {
        "ValueError": 1,
        "java.lang.IllegalArgumentException": 1,
        None: 1,
    }


def test_a_topic_that_was_created_again_has_new_letters(run: Run, letters: Log) -> None:
    run("dlq", "replay", "orders")
    letters.delete(LETTERS)
    write_letters(letters, failure(10))
    assert places(run) == ["0/0"]


# -- purge


def test_purged_letters_do_not_appear_any_more(run: Run, letters: Log) -> None:
    """One is deleted from the log; the other one has a letter before it that stays."""
    result = run("dlq", "purge", "orders", "--exception", "BadAmount", "--force")
    assert (result.stdout, result.stderr) == ("", "1 dead letter of dlq.orders purged\n")
    run("dlq", "purge", "orders", "--key", "k3", "--force")
    assert places(run, "--replayed") == ["0/2", "0/0"]
    assert run("dlq", "show", "orders", "0/1").exit_code == 1
    assert [letters.start(TopicPartition(LETTERS, number)) for number in (0, 1)] == [0, 1]


def test_hidden_letters_are_deleted_when_those_before_them_are(run: Run, letters: Log) -> None:
    run("dlq", "purge", "orders", "--key", "k1", "--force")
    run("dlq", "purge", "orders", "--key", "k0", "--force")
    assert letters.start(TopicPartition(LETTERS, 0)) == 2


def test_one_letter_is_purged_and_not_those_before_it(run: Run, letters: Log) -> None:
    run("dlq", "purge", "orders", "--at", "0/2", "--force")
    assert places(run) == ["1/0", "0/1", "0/0"]


def test_replayed_letters_are_purged_too_and_purged_ones_are_not_replayed(run: Run, letters: Log) -> None:
    run("dlq", "replay", "orders", "--key", "k1")
    assert run("dlq", "purge", "orders", "--node", "to-cents", "--force").stderr.startswith("3 dead letters")
    run("dlq", "replay", "orders", "--again")
    assert [key for _, key, *_ in written(letters)] == [b"k1", b"k3"]


def test_by_age(run: Run, letters: Log) -> None:
    assert run("dlq", "purge", "orders", "--older-than", "7d", "--key", "k0", "--force").stderr.startswith("1 dead")
    assert run("dlq", "purge", "orders", "--older-than", "36500d", "--force").stderr.startswith("0 dead letters")


def test_purge_asks(run: Run, letters: Log) -> None:
    result = run("dlq", "purge", "orders", given="n\n")
    assert (result.exit_code, len(places(run))) == (1, 4)
    assert "Delete 4 dead letters of dlq.orders?" in result.stderr
    assert run("dlq", "purge", "orders", given="y\n").exit_code == 0
    assert places(run) == []


# -- which topic


def test_without_the_topic_nothing_has_failed_yet(run: Run, log: Log, folder: Path) -> None:
    (folder / "orders.py").write_text(APP)
    log.create(Topic("amounts", 1))
    assert listed(run) == {"topic": LETTERS, "letters": 0, "replayed": 0, "counts": [], "newest": []}
    assert run("dlq", "replay", "orders").stderr == "dlq.orders: 0 dead letters replayed\n"
    assert run("dlq", "purge", "orders", "--force").stderr == "0 dead letters of dlq.orders purged\n"
    assert log.topics().keys() == {"amounts"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("list", "-"), 2, "give the topic: --dead-letter-topic NAME"),
        (("list", "-", "--dead-letter-topic", "dlq.order"), 1, 'did you mean "dlq.orders"?'),
        (("list", "nowhere"), 1, 'there is no module "nowhere"'),
        (("list", "orders", "--since", "yesterday"), 2, "; or a duration before now, such as 2h"),
        (("show", "orders", "12"), 2, "'12' is not a place"),
        (("show", "orders", "a/b/1/2"), 2, "is not a place"),
        (("replay", "orders", "--to", "nowhere"), 1, 'there is no topic "nowhere"'),
    ],
)
def test_mistakes(run: Run, letters: Log, arguments: tuple[str, ...], code: int, message: str) -> None:
    result = run("dlq", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
