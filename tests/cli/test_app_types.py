"""produce and consume with --app: the types that an application declares for its topics."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest

from streamtopo.logs import Log, Topic
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from tests.cli.conftest import Run, objects

SHOP = """
from dataclasses import dataclass
from streamtopo import StreamsBuilder, Windows

@dataclass
class Line:
    item: str
    price: float = 1.0

@dataclass
class Order:
    lines: list[Line]

builder = StreamsBuilder("shop")
orders = builder.stream("orders", key=str, value=Order)
orders.group_by_key().windowed_by(Windows.tumbling("1m")).count(name="minutes").to_stream().to("minutes")
orders.group_by_key().count(name="totals").to_stream().to("totals")
builder.global_table("shops", key=str, value=str)
"""


@pytest.fixture(autouse=True)
def shop(folder: Path, log: Log) -> None:
    (folder / "shop.py").write_text(SHOP)
    for topic in ("orders", "totals", "minutes"):
        log.create(Topic(topic, 1))


def values(log: Log, topic: str) -> list[bytes | None]:
    return log.read(TopicPartition(topic, 0), 0, 100).columns.values


def test_a_line_is_written_as_the_application_would(run: Run, log: Log) -> None:
    given = 'ann:{"lines": [{"item": "tea", "price": 2}]}\nbob:{"lines":[{"item":"ink"}]}\nann:null\n'
    assert run("produce", "orders", "--app", "shop", "--key-separator", ":", given=given).exit_code == 0
    tea, ink = b'{"lines":[{"item":"tea","price":2.0}]}', b'{"lines":[{"item":"ink","price":1.0}]}'
    assert values(log, "orders") == [tea, ink, None]
    run("produce", "totals", "--app", "shop", given="42\n")
    assert values(log, "totals") == [(42).to_bytes(8, "big")]


def test_an_object_has_the_types_of_the_application(run: Run, log: Log) -> None:
    given = '{"key": "ann", "value": {"lines": []}, "timestamp": 5}\n{"key": "5", "value": null, "timestamp": 5}\n'
    assert run("produce", "orders", "--app", "shop", "--json", given=given).exit_code == 0
    run("produce", "totals", "--app", "shop", "--json", given='{"key": "5", "value": 42}')
    keys, found, times, _ = log.read(TopicPartition("orders", 0), 0, 100).columns
    assert (keys, found, times) == ([b"ann", b"5"], [b'{"lines":[]}', None], [5, 5])
    assert values(log, "totals") == [(42).to_bytes(8, "big")]


@pytest.mark.parametrize(
    ("topic", "line", "said"),
    [
        ("orders", "tea", "the value does not fit: not Order: "),
        ("orders", '{"lines": [{"item": "tea"}, {"item": 5}]}', "Order.lines[1].item: expected str, got int 5"),
        ("orders", '{"lines": [{"itme": "tea"}]}', 'Order.lines[0]: field "item" of Line is missing'),
        ("orders", '{"lines": [{"item": "tea", "prise": 2}]}', "Order.lines[0].prise: there is no such field"),
        ("totals", "4.5", 'the value does not fit: expected int, got "4.5"'),
        ("totals", "9" * 30, "the value does not fit: "),
    ],
)
def test_a_line_that_does_not_fit_is_named_with_its_field(topic: str, line: str, said: str, run: Run, log: Log) -> None:
    good = {"orders": '{"lines":[]}', "totals": "1"}[topic]
    result = run("produce", topic, "--app", "shop", given=f"{good}\n{line}\n{good}\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: line 2: ")
    assert said in result.stderr
    assert "1 record written before it: fix the line, and continue with it" in result.stderr
    assert len(values(log, topic)) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"key": 5, "value": null}', "the key does not fit: expected str, got int 5"),
        ('{"key": "a", "value": "text"}', "the value does not fit: Order: expected Order, got str 'text'"),
        ('{"value": "AA==", "encoding": "base64"}', 'the "value" "AA==" cannot be written as base64: not Order'),
    ],
)
def test_an_object_that_does_not_fit_is_named(line: str, said: str, run: Run, log: Log) -> None:
    result = run("produce", "orders", "--app", "shop", "--json", given=line)
    assert result.stderr.startswith(f"Error: line 1: {said}")
    assert values(log, "orders") == []


def test_a_window_cannot_be_a_line_but_is_shown_in_one(run: Run, log: Log) -> None:
    result = run("produce", "minutes", "--app", "shop", "--key-separator", ":", given="ann:1")
    assert "the keys of this topic have a window, so a line cannot hold one; use --json and base64" in result.stderr
    minute = 1_795_168_800_000
    key, one = b"ann" + minute.to_bytes(8, "big"), (1).to_bytes(8, "big")
    log.append(TopicPartition("minutes", 0), Columns([key], [one], [minute], None))
    shown = "ann 2026-11-20T10:00:00Z/2026-11-20T10:01:00Z\t1\n"
    assert run("consume", "minutes", "--app", "shop").stdout == shown
    before = objects(run("consume", "minutes", "--app", "shop", "--json"))
    again = run("consume", "minutes", "--app", "shop", "--json").stdout
    assert run("produce", "minutes", "--app", "shop", "--json", given=again).exit_code == 0
    assert objects(run("consume", "minutes", "--app", "shop", "--json")) == [*before, before[0] | {"offset": 1}]


def test_windows_of_a_clock_that_begins_at_zero_are_written_again(run: Run, log: Log) -> None:
    """The bytes of such a window are text."""
    log.append(TopicPartition("minutes", 0), Columns([b"ann" + bytes(8)], [bytes(7) + b"1"], [0], None))
    given = run("consume", "minutes", "--app", "shop", "--json").stdout
    assert run("produce", "minutes", "--app", "shop", "--json", given=given).stderr == ""
    first, again = log.read(TopicPartition("minutes", 0), 0, 100).columns.keys
    assert first == again


def test_a_window_goes_to_the_partition_of_its_key(run: Run, log: Log) -> None:
    log.create(Topic("hours", 8))
    builder = SHOP.replace('"minutes"', '"hours"')
    Path("shop2.py").write_text(builder)
    lines = [
        json.dumps({"key": b64encode(b"ann" + minute.to_bytes(8)).decode(), "key_encoding": "base64", "value": minute})
        for minute in range(8)
    ]
    assert run("produce", "hours", "--app", "shop2", "--json", given="\n".join(lines)).exit_code == 0
    counts = [log.end(TopicPartition("hours", partition)) for partition in range(8)]
    assert counts == [8 if partition == partition_of(b"ann", 8) else 0 for partition in range(8)]


PAIRS = """
from streamtopo import Serde, StreamsBuilder

def two_words(data):
    first, second = data.decode().split(" ")
    return first, second

pairs = Serde("pairs", lambda pair: " ".join(pair).encode(), two_words)
builder = StreamsBuilder("words")
builder.stream("orders", key=pairs, value=pairs).to("totals")
"""


def test_a_serde_of_ones_own_decides_whether_a_line_fits(run: Run, log: Log, folder: Path) -> None:
    (folder / "words.py").write_text(PAIRS)
    assert run("produce", "orders", "--app", "words", "--key-separator", ":", given="a b:c d\n").exit_code == 0
    assert run("produce", "orders", "--app", "words", "--json", given='{"value": "e f"}').exit_code == 0
    result = run("produce", "orders", "--app", "words", given="one\n")
    assert result.stderr.startswith("Error: line 1: the value does not fit: serde \"pairs\" failed on bytes b'one': ")
    run("produce", "orders", given="one\n")
    result = run("consume", "orders", "--app", "words")
    assert result.stdout == "a b\tc d\nnull\te f\nnull\tone\n"
    assert result.stderr.startswith('orders/0 offset 2: the value does not fit: serde "pairs" failed')


def test_a_record_that_does_not_fit_is_shown_and_named(run: Run, log: Log) -> None:
    log.append(TopicPartition("orders", 0), Columns([b"ann"], [b'{"lines": 5}'], [5], None))
    result = run("consume", "orders", "--app", "shop")
    assert (result.exit_code, result.stdout) == (0, 'ann\t{"lines": 5}\n')
    assert result.stderr == "orders/0 offset 0: the value does not fit: Order.lines: expected list, got int 5\n"


def test_a_topic_of_another_application_is_an_error_that_lists_the_own_ones(run: Run, log: Log) -> None:
    result = run("produce", "ordres", "--app", "shop", given="x")
    assert result.exit_code == 1
    topics = "minutes, orders, shop-minutes-changelog, shop-totals-changelog, shops, totals"
    said = 'neither reads nor writes "ordres"; did you mean "orders"? If not, remove --app, or give another one.'
    assert f"{said} Its topics are {topics}" in result.stderr


def test_records_without_a_key_are_noticed_where_the_application_reads_a_table(
    run: Run, log: Log, folder: Path
) -> None:
    (folder / "people.py").write_text(
        "from streamtopo import StreamsBuilder\n"
        "builder = StreamsBuilder('people')\n"
        "people = builder.table('orders', key=str, value=str, name='names')\n"
        "builder.stream('totals', key=str, value=str).join(people, lambda left, right: left + right).to('minutes')\n"
    )
    table = run("produce", "orders", "--app", "people", given="ann\nbob\n")
    assert table.stdout == '2 records written to "orders"\n'
    assert table.stderr == (
        '2 records without a key: people reads "orders" as a table, which drops them; '
        'write KEY:VALUE with --key-separator :, or {"key": …, "value": …} with --json\n'
    )
    assert not run("produce", "orders", "--app", "people", "--key-separator", ":", given="ann:Ann\n").stderr
    assert not run("produce", "totals", "--app", "people", given="1\n").stderr
