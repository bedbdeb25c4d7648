"""streamtopo consume: order and format of the output; pipes and Ctrl-C; the round trip through JSON."""

from __future__ import annotations

import json
import signal

import pytest

from streamtopo.cli.shared.declared_types import DeclaredTypes, declared_types
from streamtopo.cli.shared.record_json import TopicRecord, from_line, key_to_json, to_line, value_to_json
from streamtopo.cli.shared.record_text import bytes_to_text
from streamtopo.cli.shared.topic_reader import follow_from, limited, read_to_ends
from streamtopo.engine.loading import load_topology
from streamtopo.logs import Log, Topic
from streamtopo.records import Columns, Headers, TopicPartition
from streamtopo.serdes import BOOL, FLOAT, INT, STR, Serde
from streamtopo.settings.times import time_of, time_text
from tests.cli.conftest import Run, Start, objects, on_terminal

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FORTY_TWO = (42).to_bytes(8, "big")


@pytest.fixture
def log(log: Log) -> Log:
    """A log with a topic "t": "a" and "c" in its first partition, "b" in its second."""
    log.create(Topic("t", 2))
    log.append(T0, Columns([b"k", None], [b"a", b"c"], [1, 3]))
    log.append(T1, Columns([b"k"], [b"b"], [2], [(("h", b"1"), ("h", b"\xff"))]))
    return log


def test_all_records_are_ordered_by_time(run: Run, log: Log) -> None:
    expected = "k\ta\nk\tb\nnull\tc\n"
    assert run("consume", "t").stdout == expected
    assert run("consume", "t", "--from-beginning").stdout == expected


def test_json_has_all_parts_of_a_record(run: Run, log: Log) -> None:
    headers = [{"name": "h", "value": "1"}, {"name": "h", "value": "/w==", "encoding": "base64"}]
    assert objects(run("consume", "t", "--json")) == [
        {"key": "k", "value": "a", "partition": 0, "offset": 0, "timestamp": 1, "headers": []},
        {"key": "k", "value": "b", "partition": 1, "offset": 0, "timestamp": 2, "headers": headers},
        {"key": None, "value": "c", "partition": 0, "offset": 1, "timestamp": 3, "headers": []},
    ]


def test_records_can_be_limited(run: Run, log: Log) -> None:
    assert run("consume", "t", "--max", "2").stdout == "k\ta\nk\tb\n"
    assert run("consume", "t", "--max", "0", "--follow").stdout == ""
    assert run("consume", "t", "--partition", "1").stdout == "k\tb\n"
    result = run("consume", "t", "--partition", "2")
    assert (result.exit_code, result.stdout) == (2, "")
    assert 'topic "t" has the partitions 0 to 1' in result.stderr


def test_gaps_and_deleted_records_are_skipped(run: Run, log: Log) -> None:
    log.append(T0, Columns([b"x"] * 2000, [b"%d" % number for number in range(2000)], [9] * 2000))
    log.delete_before(T0, 1)
    log.compact(T0)  # type: ignore[attr-defined]
    assert run("consume", "t", "--partition", "0").stdout == "null\tc\nx\t1999\n"


def test_all_of_many_records_are_shown(run: Run, log: Log) -> None:
    log.create(Topic("many", 1))
    log.append(TopicPartition("many", 0), Columns([None] * 2345, [b"%d" % n for n in range(2345)], [7] * 2345))
    assert [row["value"] for row in objects(run("consume", "many", "--json"))] == list(range(2345))


def test_records_deleted_in_the_meantime_are_skipped(log: Log) -> None:
    log.append(T0, Columns([None] * 2000, [b"%d" % number for number in range(2000)], [9] * 2000))
    pages = read_to_ends(log, [T0], {T0: 2002})
    shown = next(pages)
    log.delete_before(T0, 1502)
    shown += [record for page in pages for record in page]
    assert [record.offset for record in shown] == [*range(500), *range(1502, 2002)]


def test_pages_of_large_records_are_small(log: Log) -> None:
    log.append(T1, Columns([None] * 20, [b"x" * (1 << 20)] * 20, [9] * 20))
    assert [len(page) for page in read_to_ends(log, [T1], {T1: 21})] == [5, 4, 4, 4, 4]


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
    assert value_to_json(data) == (text, encoding)
    assert data is None or json.loads(text) is not ...


@pytest.mark.parametrize("data", [b' {"a":1}', b'{"a":\n1}', b" 42", b'"x" '])
def test_a_key_that_is_json_with_spaces_around_is_text(data: bytes) -> None:
    assert key_to_json(data) == (json.dumps(data.decode()), None)


@pytest.mark.parametrize(
    ("declared", "data", "shown"),
    [
        (INT, FORTY_TWO, ("42", "int")),
        (FLOAT, b"?\xf8\0\0\0\0\0\0", ("1.5", "float")),
        (FLOAT, b"\x7f\xf8\0\0\0\0\0\0", ('"f/gAAAAAAAA="', "base64")),
        (BOOL, b"\1", ("true", "bool")),
        (INT, b"42", ('"42"', None)),
        (STR, b"42", ('"42"', None)),
        (STR, b'"x"', ('"\\"x\\""', None)),
    ],
)
def test_declared_types_have_priority_over_the_look_of_bytes(
    declared: Serde, data: bytes, shown: tuple[str, str | None]
) -> None:
    assert value_to_json(data, declared) == shown


def test_the_topology_declares_which_bytes_are_numbers(run: Run, log: Log) -> None:
    log.create(Topic("word-counts", 1))
    log.append(TopicPartition("word-counts", 0), Columns([b"7"], [FORTY_TWO], [5]))
    (row,) = objects(run("consume", "word-counts", "--json", "--app", "apps.wordcount"))
    assert (row["key"], row["value"], row["encoding"]) == ("7", 42, "int")
    assert run("consume", "word-counts", "--app", "apps.wordcount").stdout == "7\t42\n"
    (row,) = objects(run("consume", "word-counts", "--json"))
    assert (row["key"], row["value"]) == (7, "\0\0\0\0\0\0\0*")


def test_a_topology_knows_its_internal_topics_and_no_others(run: Run, log: Log) -> None:
    topology = load_topology("apps.wordcount")
    assert declared_types(topology, "wordcount-counts-changelog") == DeclaredTypes(STR, INT)
    assert declared_types(topology, "wordcount-counts-repartition") == DeclaredTypes(STR, STR)
    result = run("consume", "t", "--app", "apps.wordcount")
    assert (result.exit_code, result.stdout) == (1, "")
    assert 'the topology "wordcount" neither reads nor writes "t"' in result.stderr


def test_bytes_that_are_not_text_are_shown_in_text() -> None:
    assert [bytes_to_text(data) for data in (None, b"a\xff", "é".encode())] == ["null", "a\\xff", "é"]
    assert bytes_to_text(b"short", INT) == "short"


def test_a_time_outside_of_the_calendar_is_shown_as_a_number() -> None:
    assert time_text(2**62) == str(2**62)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20.005Z", 1_700_000_000_005),
        ("1969-12-31T23:59:59Z", -1000),
    ],
)
def test_a_time_is_shown_in_utc_and_read_in_any_zone_and_as_milliseconds(text: str, time: int) -> None:
    assert (time_text(time), time_of(text)) == (text, time)
    assert time_of("2023-11-14T23:13:20+01:00") == time_of("2023-11-14T22:13:20") == time_of("1700000000000")


@pytest.mark.parametrize("text", ["20231114", "noon", "9" * 20, "٣", "-5", ""])
def test_what_may_not_be_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; give one in UTC"):
        time_of(text)


# -- round trip


@pytest.mark.parametrize(
    "types",
    [DeclaredTypes(), DeclaredTypes(INT, FLOAT), DeclaredTypes(STR, STR), DeclaredTypes(BOOL, INT)],
)
def test_a_line_of_json_restores_the_bytes(types: DeclaredTypes) -> None:
    datas = [None, b"", b"k", b"42", b"1e400", b'"q"', b"null", b"{}", b'{"a": 1.10, "b":[1]}', b"\xff\0", FORTY_TWO]
    datas += [
        b"\1",
        b"?\xf8\0\0\0\0\0\0",
        b"\x7f\xf8\0\0\0\0\0\0",
        "é\u2028\r\n".encode(),
        b"True",
        b'{"a":1,"a":2}',
        b" 42",
        b'"x"\n',
        b"null ",
    ]
    for key in [*datas, b'{"a":\n1}']:
        for value in datas:
            record = TopicRecord(0, 0, key, value, -5, (("h", b"\xff"), ("h", b"null"), ("é", b"")))
            assert from_line(to_line(record, types).encode(), 0) == record


def test_produce_writes_what_consume_prints(start: Start, run: Run, log: Log) -> None:
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


def test_new_records_follow_the_existing_ones(log: Log) -> None:
    pages = follow_from(log, {T0: 1, T1: 1})
    assert [record.value for record in next(pages)] == [b"c"]
    log.append(T1, Columns([None] * 2, [b"d", b"e"], [4, 5]))
    assert [(record.value, record.offset) for record in next(pages)] == [(b"d", 1), (b"e", 2)]


def test_records_deleted_before_reading_are_skipped(log: Log) -> None:
    pages = follow_from(log, {T0: 0})
    log.delete_before(T0, 1)
    assert [record.value for record in next(pages)] == [b"c"]


def test_reading_stops_at_the_limit_without_waiting(log: Log) -> None:
    pages = limited(follow_from(log, {T0: 0, T1: 0}), 3)
    assert [record.value for page in pages for record in page] == [b"a", b"c", b"b"]
    pages = limited(follow_from(log, {T0: 0, T1: 0}), 1)
    assert [record.value for page in pages for record in page] == [b"a"]


def test_ctrl_c_ends_with_130(start: Start, log: Log) -> None:
    consumer = start("consume", "t", "--from-beginning", "--follow")
    assert consumer.stdout
    assert [consumer.stdout.readline() for _ in range(3)] == [b"k\ta\n", b"k\tb\n", b"null\tc\n"]
    consumer.send_signal(signal.SIGINT)
    assert (consumer.communicate(timeout=10), consumer.returncode) == ((b"", b""), 130)


def test_a_closed_pipe_is_not_a_failure(start: Start, log: Log) -> None:
    log.append(T0, Columns([None] * 50_000, [b"x" * 20] * 50_000, [9] * 50_000))
    consumer = start("consume", "t", "--json")
    assert consumer.stdout
    assert consumer.stdout.readline().startswith(b'{"key":"k"')
    consumer.stdout.close()
    assert consumer.stderr
    assert (consumer.stderr.read(), consumer.wait(10)) == (b"", 0)


@pytest.mark.parametrize("command", [("consume", "t", "--json"), ("consume", "t"), ("topics", "list")])
def test_an_output_that_cannot_be_written_is_one_message(command: tuple[str, ...], start: Start, log: Log) -> None:
    with open("/dev/full", "wb") as full:
        failed = start(*command, stdout=full)
    assert failed.communicate(timeout=10)[1] == b"Error: [Errno 28] No space left on device\n"
    assert failed.returncode == 1


def test_a_header_can_have_a_null_value(run: Run, log: Log) -> None:
    headers: list[Headers] = [(("none", None), ("empty", b""))]
    log.append(T0, Columns([None], [b"d"], [9], headers))
    said = run("consume", "t", "--json")
    assert objects(said)[-1]["headers"] == [{"name": "none", "value": None}, {"name": "empty", "value": ""}]
    log.create(Topic("u", 1))
    run("produce", "u", "--json", given=said.stdout.splitlines()[-1])
    assert log.read(TopicPartition("u", 0), 0, 100).columns.headers == headers


def test_a_header_that_is_null_in_json_is_null_in_json() -> None:
    line = b'{"value": "v", "headers": [{"name": "h", "value": null, "encoding": "json"}]}'
    assert from_line(line, 0).headers == (("h", b"null"),)


def test_records_are_a_table_on_a_terminal(start: Start, log: Log) -> None:
    log.append(T1, Columns([b"evil"], [b"\x1b[2J[bold]"], [4]))
    lines = [line.split() for line in on_terminal(start, "consume", "t")]
    assert lines[0] == ["time", "partition", "offset", "key", "value"]
    assert lines[1][0] == "1970-01-01T00:00:00.001Z"
    assert [line[1:] for line in lines[1:]] == [
        ["0", "0", "k", "a"],
        ["1", "0", "k", "b"],
        ["0", "1", "null", "c"],
        ["1", "1", "evil", "\\x1b[2J[bold]"],
    ]


@pytest.mark.usefixtures("log")
def test_a_narrow_terminal_shows_keys_and_values(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = [line.split() for line in on_terminal(start, "consume", "t")]
    assert lines == [["key", "value"], ["k", "a"], ["k", "b"], ["null", "c"]]
