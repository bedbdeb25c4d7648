"""streamtopo produce: lines, keys, JSON, batches, errors that say where to continue."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamtopo.cli.shared.line_batches import LineBatch, read_batches
from streamtopo.errors import LogError
from streamtopo.logs import Log, Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from tests.cli.conftest import Run, Start


@pytest.fixture
def log(log: Log) -> Log:
    """A log with a topic "t" of one partition."""
    log.create(Topic("t", 1))
    return log


def columns(log: Log, topic: str = "t", partition: int = 0) -> Columns:
    return log.read(TopicPartition(topic, partition), 0, 1 << 30).columns


def test_each_line_is_a_value(run: Run, log: Log) -> None:
    result = run("produce", "t", given=b"to be\n\r\n\xff \r\nlast")
    assert (result.exit_code, result.stdout) == (0, '4 records written to "t"\n')
    assert columns(log).values == [b"to be", b"", b"\xff ", b"last"]
    assert columns(log).keys == [None] * 4


def test_lines_can_be_read_from_a_file(run: Run, log: Log, folder: Path) -> None:
    (folder / "book.txt").write_text("a\nb\n")
    assert run("produce", "t", "book.txt").stdout == '2 records written to "t"\n'
    assert columns(log).values == [b"a", b"b"]


def test_empty_input_writes_nothing(run: Run, log: Log) -> None:
    assert run("produce", "t").stdout == '0 records written to "t"\n'


def test_the_key_is_before_the_separator(run: Run, log: Log) -> None:
    run("produce", "t", "--key-separator", ":", given="a:b:c\n:d\n")
    run("produce", "t", "--key-separator", r"\t", given="e\tf\n")
    assert columns(log)[:2] == ([b"a", b"", b"e"], [b"b:c", b"d", b"f"])


def test_keys_go_to_their_partition_and_other_records_in_turn(run: Run, log: Log) -> None:
    log.create(Topic("wide", 3))
    run("produce", "wide", "--key-separator", ":", given="".join(f"{number}:v\n" for number in range(20)))
    for partition in range(3):
        keys = columns(log, "wide", partition).keys
        assert {partition_of(key, 3) for key in keys} == {partition}
    log.create(Topic("turns", 3))
    run("produce", "turns", given="0\n1\n2\n3\n4\n")
    assert [columns(log, "turns", partition).values for partition in range(3)] == [[b"0", b"3"], [b"1", b"4"], [b"2"]]


def test_lines_can_be_json_objects(run: Run, log: Log) -> None:
    given = """
        {"key": "k", "value": "text é", "timestamp": 5}
        {"value": {"a": [1.10, 12345678901234567890123]}, "headers": [{"name": "h", "value": "1"}], "timestamp": 6}
        {"key": 42, "value": null, "headers": {"a": "b"}, "partition": 7, "offset": 8, "timestamp": 7}
        {"key": 42, "key_encoding": "int", "value": "x", "encoding": "json", "timestamp": 8}
        {"value": "AP8=", "encoding": "base64", "timestamp": 9}
        {"value": 1.5, "encoding": "float", "timestamp": 10}
        {"value": true, "encoding": "bool", "timestamp": 11}
        {"value": null, "encoding": "json", "timestamp": 12}
    """
    assert run("produce", "t", "--json", given=given).stdout == '8 records written to "t"\n'
    keys, values, timestamps, headers = columns(log)
    assert keys == [b"k", None, b"42", bytes([0, 0, 0, 0, 0, 0, 0, 42]), None, None, None, None]
    assert values == [
        "text é".encode(),
        b'{"a": [1.10, 12345678901234567890123]}',
        None,
        b'"x"',
        b"\x00\xff",
        b"?\xf8\0\0\0\0\0\0",
        b"\1",
        b"null",
    ]
    assert timestamps == list(range(5, 13))
    assert headers == [(), (("h", b"1"),), (("a", b"b"),), (), (), (), (), ()]


def test_a_number_keeps_all_its_digits(run: Run, log: Log) -> None:
    assert run("produce", "t", "--json", given='{"value": ' + "7" * 5000 + "}").exit_code == 0
    assert columns(log).values == [b"7" * 5000]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("to be", "not a JSON object: expected a {"),
        ('{"value": 1', "not a JSON object: expected a , or }"),
        ('{"value": 1} 2', "unexpected text after the object"),
        ('{"value": tru}', "not a JSON object: Expecting value"),
        ("[" * 100_000, "not a JSON object"),
        ('{"value": ' + "[" * 100_000, "not a JSON object"),
        ('{"value": NaN}', "NaN is not valid JSON; write null, or a string"),
        ('{"key": "a"}', 'the object has no "value", not even null; without --json a whole line is the value'),
        ('{"vlaue": 1}', 'unknown member "vlaue"; a record has key, value, '),
        ('{"value": "ÿ"}', "not UTF-8"),
        ('{"value": "\\ud800"}', 'the "value" "\\ud800" cannot be written as text'),
        ('{"value": "a", "timestamp": 1.5}', 'the "timestamp" is 1.5; give milliseconds'),
        ('{"value": "a", "timestamp": 9223372036854775808}', 'the "timestamp" is 9223372036854775808'),
        ('{"value": "a", "headers": ["h"]}', "a header is 'h'; write"),
        ('{"value": "a", "headers": 5}', 'the "headers" are 5; write'),
        ('{"value": "a", "encoding": "int"}', 'the "value" "a" cannot be written as int: expected int'),
        ('{"value": "?", "encoding": "base64"}', 'the "value" "?" cannot be written as base64'),
        ('{"value": 5, "encoding": "base64"}', 'the "value" 5 cannot be written as base64'),
        ('{"value": "a", "key_encoding": "hex"}', "\"key\" has the encoding 'hex'; give one of json, base64, int"),
        ('{"value": "a", "encoding": ["int"]}', "\"value\" has the encoding ['int']"),
    ],
    ids=lambda text: text[:30],
)
def test_a_bad_line_is_named_and_the_lines_before_are_written(line: str, said: str, run: Run, log: Log) -> None:
    given = b'{"value": "good"}\n\n' + line.encode("latin-1") + b'\n{"value": "after"}\n'
    result = run("produce", "t", "--json", given=given)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: line 3: ")
    assert said in result.stderr
    assert "1 record written before it: fix the line, and continue with it (if your program can " in result.stderr
    assert result.stderr.endswith("print the same lines again: … | tail -n +3 | streamtopo produce …)\n")
    assert columns(log).values == [b"good"]


def test_a_line_without_the_separator_is_an_error(run: Run, log: Log) -> None:
    result = run("produce", "t", "--key-separator", ":", given="a:b\nc\n")
    assert result.exit_code == 1
    assert result.stderr.startswith('Error: line 2: there is no ":" in the line')
    assert columns(log).values == [b"b"]


def test_the_rest_of_a_file_is_named_with_its_file(run: Run, log: Log, folder: Path) -> None:
    (folder / "my orders.txt").write_text("a:b\nc\n")
    result = run("produce", "t", "my orders.txt", "--key-separator", ":")
    assert result.stderr.endswith("continue with it (tail -n +2 'my orders.txt' | streamtopo produce …)\n")


def test_a_log_that_fails_half_way_says_where_to_continue(run: Run, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Producing everything again would write the first lines twice."""

    def append(log: EmbeddedLog, target: TopicPartition, columns: Columns) -> int:
        if log.end(target) >= 10_000:
            raise LogError("the disk is full")
        return appended(log, target, columns)

    appended = EmbeddedLog.append
    monkeypatch.setattr(EmbeddedLog, "append", append)
    result = run("produce", "t", given="line\n" * 15_000)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: the disk is full. 10,000 records written to ")
    assert "all before line 10001, " in result.stderr
    assert "Continue with line 10001 (if your program can print" in result.stderr
    assert log.end(TopicPartition("t", 0)) == 10_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--json", "--key-separator", ":"], "with --json, the key is part of the object"),
        (["--key-separator", ""], "the separator is empty"),
        (["missing.txt"], "'missing.txt': No such file"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], said: str, run: Run, log: Log) -> None:
    result = run("produce", "t", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


# -- batches


def test_batches_have_10_000_lines_at_most(folder: Path) -> None:
    (folder / "file").write_bytes(b"line\n" * 25_000 + b"last")
    with (folder / "file").open("rb") as file:
        found = list(read_batches(file))
    assert [len(batch.lines) for batch in found] == [10_000, 10_000, 5_001]
    assert sum(batch.size for batch in found) == 125_004


def test_batches_of_large_lines_are_small(folder: Path) -> None:
    line = b"x" * (3 << 20)
    (folder / "file").write_bytes((line + b"\n") * 20)
    with (folder / "file").open("rb") as file:
        found = list(read_batches(file))
    assert [one for batch in found for one in batch.lines] == [line] * 20
    assert max(batch.size for batch in found) < 20 << 20


@pytest.fixture
def pipe() -> Iterator[tuple[int, Iterator[LineBatch]]]:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        yield writing, read_batches(stream)


def test_a_typed_line_does_not_wait_for_the_next(pipe: tuple[int, Iterator[LineBatch]]) -> None:
    writing, found = pipe
    os.write(writing, b"one\ntw")
    assert next(found).lines == [b"one"]
    os.write(writing, b"o\nthree")
    assert next(found).lines == [b"two"]
    os.close(writing)
    assert [batch.lines for batch in found] == [[b"three"]]


def test_lines_typed_before_ctrl_c_are_kept(
    pipe: tuple[int, Iterator[LineBatch]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    writing, found = pipe
    os.write(writing, b"one\n")
    os.close(writing)
    monkeypatch.setattr("streamtopo.cli.shared.line_batches.select.select", interrupted)
    assert next(found).lines == [b"one"]
    with pytest.raises(KeyboardInterrupt):
        next(found)


def test_typed_lines_are_written_at_once(start: Start, log: Log) -> None:
    consumer = start("consume", "t", "--follow", "--from-beginning", "--max", "2")
    producer = start("produce", "t")
    assert producer.stdin
    assert consumer.stdout
    for word in (b"one", b"two"):
        producer.stdin.write(word + b"\n")
        producer.stdin.flush()
        assert consumer.stdout.readline() == b"null\t" + word + b"\n"
    assert (consumer.wait(10), producer.communicate(timeout=10)[0]) == (0, b'2 records written to "t"\n')


def test_a_file_has_a_progress_bar_on_a_terminal(start: Start, log: Log, folder: Path) -> None:
    (folder / "book.txt").write_text("line\n" * 1000)
    ours, theirs = pty.openpty()
    producer = start("produce", "t", "book.txt", stderr=theirs)
    os.close(theirs)
    assert producer.communicate(timeout=10)[0] == b'1,000 records written to "t"\n'
    assert b"5.0/5.0 kB" in os.read(ours, 65536)
    os.close(ours)
