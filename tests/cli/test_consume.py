"""streamtopo consume: what is shown, in which order and form; pipes and Ctrl-C; the round trip through JSON."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from contextlib import suppress

import pytest

from streamtopo.cli.reading import everything, first, news
from streamtopo.cli.record_json import Record, line_of, record_of, shown_key, shown_value
from streamtopo.cli.record_text import text_of, time_of
from streamtopo.cli.shapes import Shapes, shapes_of
from streamtopo.engine.loading import load_topology
from streamtopo.logs import Log, Topic
from streamtopo.records import Columns, Headers, TopicPartition
from tests.cli.conftest import Run, Start, objects

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FORTY_TWO = (42).to_bytes(8, "big")


@pytest.fixture
def log(log: Log) -> Log:
    """With a topic "t": "a" and "c" in its first partition, "b" in its second."""
    log.create(Topic("t", 2))
    log.append(T0, Columns([b"k", None], [b"a", b"c"], [1, 3]))
    log.append(T1, Columns([b"k"], [b"b"], [2], [(("h", b"1"), ("h", b"\xff"))]))
    return log


def test_everything_in_the_order_of_time(run: Run, log: Log) -> None:
    expected = "k\ta\nk\tb\nnull\tc\n"
    assert run("consume", "t").stdout == expected
    assert run("consume", "t", "--from-beginning").stdout == expected


def test_json_has_all_there_is(run: Run, log: Log) -> None:
    headers = [{"name": "h", "value": "1"}, {"name": "h", "value": "/w==", "encoding": "base64"}]
    assert objects(run("consume", "t", "--json")) == [
        {"key": "k", "value": "a", "partition": 0, "offset": 0, "timestamp": 1, "headers": []},
        {"key": "k", "value": "b", "partition": 1, "offset": 0, "timestamp": 2, "headers": headers},
        {"key": None, "value": "c", "partition": 0, "offset": 1, "timestamp": 3, "headers": []},
    ]


def test_a_part_of_it(run: Run, log: Log) -> None:
    assert run("consume", "t", "--max", "2").stdout == "k\ta\nk\tb\n"
    assert run("consume", "t", "--max", "0", "--follow").stdout == ""
    assert run("consume", "t", "--partition", "1").stdout == "k\tb\n"
    result = run("consume", "t", "--partition", "2")
    assert (result.exit_code, result.stdout) == (2, "")
    assert 'topic "t" has the partitions 0 to 1' in result.stderr


def test_gaps_and_deleted_beginnings_are_passed_over(run: Run, log: Log) -> None:
    log.append(T0, Columns([b"x"] * 2000, [b"%d" % number for number in range(2000)], [9] * 2000))
    log.delete_before(T0, 1)
    log.compact(T0)  # type: ignore[attr-defined]
    assert run("consume", "t", "--partition", "0").stdout == "null\tc\nx\t1999\n"


def test_many_records_all_come(run: Run, log: Log) -> None:
    log.create(Topic("many", 1))
    log.append(TopicPartition("many", 0), Columns([None] * 2345, [b"%d" % n for n in range(2345)], [7] * 2345))
    assert [row["value"] for row in objects(run("consume", "many", "--json"))] == list(range(2345))


def test_what_is_deleted_while_it_is_shown_is_passed_over(log: Log) -> None:
    log.append(T0, Columns([None] * 2000, [b"%d" % number for number in range(2000)], [9] * 2000))
    pages = everything(log, [T0], {T0: 2002})
    shown = next(pages)
    log.delete_before(T0, 1502)
    shown += [record for page in pages for record in page]
    assert [record.offset for record in shown] == [*range(500), *range(1502, 2002)]


def test_large_records_come_in_small_pages(log: Log) -> None:
    log.append(T1, Columns([None] * 20, [b"x" * (1 << 20)] * 20, [9] * 20))
    assert [len(page) for page in everything(log, [T1], {T1: 21})] == [5, 4, 4, 4, 4]


# -- how bytes are shown


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (None, "null", None),
        (b"", '""', None),
        (b"to be", '"to be"', None),
        ("é\n\x1b".encode(), '"é\\n\\u001b"', None),
        (b"42", "42", None),
        (b"-1.50", "-1.50", None),
        (b"12345678901234567890123", "12345678901234567890123", None),
        (b"true", "true", None),
        (b'{"b": 1,"a":[]}', '{"b": 1,"a":[]}', None),
        (b' {"a":\r\n1}\n', '{"a":  1}', None),
        (b'"quoted"', '"quoted"', "json"),
        (b"null", "null", "json"),
        (b"nul", '"nul"', None),
        (b"NaN", '"NaN"', None),
        (b"\xff", '"/w=="', "base64"),
        (b'"\xff"', '"Iv8i"', "base64"),
    ],
)
def test_a_value_is_json_or_text_or_base64(data: bytes | None, text: str, encoding: str | None) -> None:
    assert shown_value(data) == (text, encoding)
    assert data is None or json.loads(text) is not ...


@pytest.mark.parametrize("data", [b' {"a":1}', b'{"a":\n1}', b" 42", b'"x" '])
def test_a_key_that_is_json_with_spaces_around_is_text(data: bytes) -> None:
    assert shown_key(data) == (json.dumps(data.decode()), None)


@pytest.mark.parametrize(
    ("shape", "data", "shown"),
    [
        ("int", FORTY_TWO, ("42", "int")),
        ("float", b"?\xf8\0\0\0\0\0\0", ("1.5", "float")),
        ("float", b"\x7f\xf8\0\0\0\0\0\0", ('"f/gAAAAAAAA="', "base64")),
        ("bool", b"\1", ("true", "bool")),
        ("int", b"42", ('"42"', None)),
        ("str", b"42", ('"42"', None)),
        ("str", b'"x"', ('"\\"x\\""', None)),
    ],
)
def test_what_the_topology_declares_outweighs_what_bytes_look_like(
    shape: str, data: bytes, shown: tuple[str, str | None]
) -> None:
    assert shown_value(data, shape) == shown


def test_the_topology_says_what_is_a_number(run: Run, log: Log) -> None:
    log.create(Topic("word-counts", 1))
    log.append(TopicPartition("word-counts", 0), Columns([b"7"], [FORTY_TWO], [5]))
    (row,) = objects(run("consume", "word-counts", "--json", "--app", "apps.wordcount"))
    assert (row["key"], row["value"], row["encoding"]) == ("7", 42, "int")
    assert run("consume", "word-counts", "--app", "apps.wordcount").stdout == "7\t42\n"
    (row,) = objects(run("consume", "word-counts", "--json"))
    assert (row["key"], row["value"]) == (7, "\0\0\0\0\0\0\0*")


def test_a_topology_knows_its_internal_topics_and_no_others(run: Run, log: Log) -> None:
    topology = load_topology("apps.wordcount")
    assert shapes_of(topology, "wordcount-counts-changelog") == Shapes("str", "int")
    assert shapes_of(topology, "wordcount-counts-repartition") == Shapes("str", "str")
    result = run("consume", "t", "--app", "apps.wordcount")
    assert (result.exit_code, result.stdout) == (1, "")
    assert 'the topology "wordcount" neither reads nor writes "t"' in result.stderr


def test_text_shows_what_is_no_text() -> None:
    assert [text_of(data) for data in (None, b"a\xff", "é".encode())] == ["null", "a\\xff", "é"]
    assert text_of(b"short", "int") == "short"


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    assert time_of(2**62) == str(2**62)
    assert len(time_of(1_700_000_000_000)) == len("2023-11-14 22:13:20.000")


# -- round trip


@pytest.mark.parametrize("shapes", [Shapes(), Shapes("int", "float"), Shapes("str", "str"), Shapes("bool", "int")])
def test_a_line_of_json_says_what_the_bytes_were(shapes: Shapes) -> None:
    datas = [None, b"", b"k", b"42", b"1e400", b'"q"', b"null", b"{}", b'{"a": 1.10, "b":[1]}', b"\xff\0", FORTY_TWO]
    datas += [b"\1", b"?\xf8\0\0\0\0\0\0", b"\x7f\xf8\0\0\0\0\0\0", "é\u2028\r\n".encode(), b"True", b'{"a":1,"a":2}']
    for key in [*datas, b" 42", b'{"a":\n1}']:
        for value in datas:
            record = Record(0, 0, key, value, -5, (("h", b"\xff"), ("h", b"null"), ("é", b"")))
            assert record_of(line_of(record, shapes).encode(), 0) == record


def test_what_consume_prints_produce_writes(start: Start, run: Run, log: Log) -> None:
    log.create(Topic("copy", 2))
    consumer = start("consume", "t", "--json")
    assert consumer.stdout
    producer = start("produce", "copy", "--json", stdin=consumer.stdout)
    assert producer.communicate(timeout=60) == (b'3 records written to "copy"\n', b"")

    def told(topic: str) -> list[dict[str, object]]:
        where = ("partition", "offset")
        rows = objects(run("consume", topic, "--json"))
        return [{name: row[name] for name in row if name not in where} for row in rows]

    assert told("copy") == told("t")


# -- following


def test_news_come_after_what_was_there(log: Log) -> None:
    pages = news(log, {T0: 1, T1: 1})
    assert [record.value for record in next(pages)] == [b"c"]
    log.append(T1, Columns([None] * 2, [b"d", b"e"], [4, 5]))
    assert [(record.value, record.offset) for record in next(pages)] == [(b"d", 1), (b"e", 2)]


def test_what_was_deleted_before_it_was_read_is_left_out(log: Log) -> None:
    pages = news(log, {T0: 0})
    log.delete_before(T0, 1)
    assert [record.value for record in next(pages)] == [b"c"]


def test_the_first_records_are_not_followed_by_waiting(log: Log) -> None:
    pages = first(news(log, {T0: 0, T1: 0}), 3)
    assert [record.value for page in pages for record in page] == [b"a", b"c", b"b"]
    pages = first(news(log, {T0: 0, T1: 0}), 1)
    assert [record.value for page in pages for record in page] == [b"a"]


def test_ctrl_c_ends_with_130(start: Start, log: Log) -> None:
    consumer = start("consume", "t", "--from-beginning", "--follow")
    assert consumer.stdout
    assert [consumer.stdout.readline() for _ in range(3)] == [b"k\ta\n", b"k\tb\n", b"null\tc\n"]
    consumer.send_signal(signal.SIGINT)
    assert (consumer.communicate(timeout=10), consumer.returncode) == ((b"", b""), 130)


def test_a_reader_that_has_seen_enough_is_no_failure(start: Start, log: Log) -> None:
    log.append(T0, Columns([None] * 50_000, [b"x" * 20] * 50_000, [9] * 50_000))
    consumer = start("consume", "t", "--json")
    assert consumer.stdout
    assert consumer.stdout.readline().startswith(b'{"key":"k"')
    consumer.stdout.close()
    assert consumer.stderr
    assert (consumer.stderr.read(), consumer.wait(10)) == (b"", 0)


@pytest.mark.parametrize("command", [("consume", "t", "--json"), ("consume", "t"), ("topics", "list")])
def test_where_nothing_can_be_written_that_is_one_message(command: tuple[str, ...], start: Start, log: Log) -> None:
    with open("/dev/full", "wb") as full:
        failed = start(*command, stdout=full)
    assert failed.communicate(timeout=10)[1] == b"Error: [Errno 28] No space left on device\n"
    assert failed.returncode == 1


def test_a_header_may_have_no_value(run: Run, log: Log) -> None:
    headers: list[Headers] = [(("none", None), ("empty", b""))]
    log.append(T0, Columns([None], [b"d"], [9], headers))
    said = run("consume", "t", "--json")
    assert objects(said)[-1]["headers"] == [{"name": "none", "value": None}, {"name": "empty", "value": ""}]
    log.create(Topic("u", 1))
    run("produce", "u", "--json", given=said.stdout.splitlines()[-1])
    assert log.read(TopicPartition("u", 0), 0, 100).columns.headers == headers


def test_a_header_that_is_null_in_json_is_null_in_json() -> None:
    line = b'{"value": "v", "headers": [{"name": "h", "value": null, "encoding": "json"}]}'
    assert record_of(line, 0).headers == (("h", b"null"),)


def test_on_a_terminal_it_is_a_table(start: Start, log: Log) -> None:
    log.append(T1, Columns([b"evil"], [b"\x1b[2J[bold]"], [4]))
    ours, theirs = pty.openpty()
    consumer = start("consume", "t", stdin=subprocess.DEVNULL, stdout=theirs)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # how the other end of a terminal hears that it was closed
        while read := os.read(ours, 65536):
            shown += read
    os.close(ours)
    assert consumer.wait(10) == 0
    lines = [line.split() for line in re.sub(r"\x1b\[\d*m", "", shown.decode()).splitlines()]
    assert lines[0] == ["time", "partition", "offset", "key", "value"]
    assert [line[2:] for line in lines[1:]] == [
        ["0", "0", "k", "a"],
        ["1", "0", "k", "b"],
        ["0", "1", "null", "c"],
        ["1", "1", "evil", "\\x1b[2J[bold]"],
    ]
