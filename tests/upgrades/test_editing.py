"""Which edits are possible while the rows of the previous version exist, and which are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from streamtopo import (
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    Topology,
    Windows,
    until_time_limit,
    until_window_closes,
    window_store,
)
from streamtopo.errors import FingerprintError
from streamtopo.records import TopicPartition
from tests.upgrades.versions import HOUR, Home, Row, built, shown

TEN = 10 * HOUR
FIVE: list[Row] = [("a", "x", TEN + number) for number in range(5)]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home", ("in", "right", "out"))
    yield home
    home.log.close()


def counting(windows: Any, emit: str = "on_update", **options: Any) -> Topology:
    def describe(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        shown(grouped.windowed_by(windows, emit=emit).count(name="c", **options))

    return built(describe)


def joining(how: str = "join", **options: Any) -> Topology:
    def describe(builder: StreamsBuilder) -> None:
        left, right = (builder.stream(topic, key=str, value=str) for topic in ("in", "right"))
        getattr(left, how)(right, lambda one, other: f"{one}+{other}", store="j", **options).to("out")

    return built(describe)


def unique(within: str) -> Topology:
    return built(lambda builder: builder.stream("in", key=str, value=str).deduplicate(within).to("out"))


def hour(**options: Any) -> Any:
    return Windows.tumbling("1h", **options)


CLOSING: list[Row] = [("b", "x", TEN + 4 * HOUR)]
LATER: list[Row] = [("a", "x", TEN + 10)]
SIXTH = [(f"a-{TEN}-{TEN + HOUR}", "6")]
CLOSED = [(f"a-{TEN}-{TEN + HOUR}", "5")]
SESSION = [(f"a-{TEN}-{TEN + 4}", "None"), (f"a-{TEN}-{TEN + 10}", "6")]


@pytest.mark.parametrize("wiped", [False, True], ids=["with its rows", "wiped"])
@pytest.mark.parametrize(
    ("before", "after", "rows", "wanted"),
    [
        pytest.param(counting(hour()), counting(hour(grace="1d")), LATER, SIXTH, id="more grace"),
        pytest.param(counting(hour(grace="1d")), counting(hour()), LATER, SIXTH, id="less grace"),
        pytest.param(counting(hour()), counting(hour(), retention="7d"), LATER, SIXTH, id="more retention"),
        pytest.param(counting(hour()), counting(hour(), "on_close"), CLOSING, CLOSED, id="to on_close"),
        pytest.param(counting(hour(), "on_close"), counting(hour()), LATER, SIXTH, id="to on_update"),
        pytest.param(
            counting(hour(), "on_close"),
            counting(hour(grace="1h"), "on_close"),
            CLOSING,
            CLOSED,
            id="more grace on close",
        ),
        pytest.param(
            counting(Windows.session("1h")), counting(Windows.session("1d")), LATER, SESSION, id="a longer gap"
        ),
        pytest.param(
            counting(Windows.session("1d")), counting(Windows.session("1h")), LATER, SESSION, id="a shorter gap"
        ),
        pytest.param(unique("1h"), unique("1d"), LATER, [], id="deduplicate for longer"),
        pytest.param(unique("1d"), unique("1h"), LATER, [], id="deduplicate for less"),
    ],
)
def test_retention_and_the_time_of_emission_can_be_edited(
    home: Home, before: Topology, after: Topology, rows: list[Row], wanted: list[Any], wiped: bool
) -> None:
    home.put("in", *FIVE)
    home.run(before)
    home.put("in", *rows)
    assert home.run(after, wiped=wiped)[: len(wanted) or None] == wanted


@pytest.mark.parametrize(
    ("before", "after"),
    [({"within": "1h"}, {"within": "2h"}), ({"within": "2h"}, {"within": "1h"}), ({}, {"grace": "1d"})],
)
@pytest.mark.parametrize("how", ["join", "left_join"])
def test_the_window_of_a_join_can_be_edited(
    home: Home, how: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    home.put("in", ("a", "L", TEN))
    home.run(joining(how, **{"within": "1h"} | before))
    home.put("right", ("a", "R", TEN + 5))
    assert home.run(joining(how, **{"within": "1h"} | after)) == [("a", "L+R")]


def test_shortening_the_grace_emits_pending_windows_and_no_others_again(home: Home) -> None:
    home.put("in", *FIVE, ("b", "x", TEN + HOUR))
    assert home.run(counting(hour(grace="3h"), "on_close")) == []
    home.put("in", ("b", "x", TEN + HOUR + 1))
    assert home.run(counting(hour(), "on_close")) == CLOSED
    home.put("in", *LATER, ("b", "x", TEN + 9 * HOUR))
    handed_on = home.run(counting(hour(grace="3h"), "on_close"))
    assert handed_on == [(f"b-{TEN + HOUR}-{TEN + 2 * HOUR}", "2")]


def test_shortening_the_gap_emits_pending_sessions(home: Home) -> None:
    home.put("in", *FIVE, ("b", "x", TEN + 2 * HOUR))
    assert home.run(counting(Windows.session("3h"), "on_close")) == []
    home.put("in", ("b", "x", TEN + 2 * HOUR + 1))
    assert home.run(counting(Windows.session("1h"), "on_close")) == [(f"a-{TEN}-{TEN + 4}", "5")]


@pytest.mark.parametrize("chunk", [1, 100])
@pytest.mark.parametrize("edited", [Windows.session("3h"), Windows.session("1h", grace="2h")])
def test_a_reopened_session_is_emitted_again_only_if_it_ends_later(home: Home, edited: Windows, chunk: int) -> None:
    home.put("in", *FIVE, ("c", "x", TEN), ("b", "x", TEN + 2 * HOUR))
    assert len(home.run(counting(Windows.session("1h"), "on_close"), chunk=chunk)) == 2
    reopened = [("a", "x", TEN + 3), ("c", "x", TEN + HOUR)]
    home.put("in", *reopened, ("b", "x", TEN + 9 * HOUR))
    assert home.run(counting(edited, "on_close"), chunk=chunk) == [
        (f"c-{TEN}-{TEN + HOUR}", "2"),
        (f"b-{TEN + 2 * HOUR}-{TEN + 2 * HOUR}", "1"),
    ]


def suppressed(wait: Any) -> Topology:
    def describe(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        shown(grouped.windowed_by(hour()).count(name="c").suppress(wait, name="s"))

    return built(describe)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            counting(Windows.tumbling("10s")),
            counting(Windows.tumbling("1m")),
            "store c: windows of 10000 ms -> windows of 60000 ms",
        ),
        (
            counting(hour()),
            counting(Windows.hopping("1h", every="20m")),
            "store c: windows of 3600000 ms -> windows of 3600000 ms every 1200000 ms",
        ),
        (
            counting(Windows.sliding("1h")),
            counting(Windows.sliding("2h")),
            "store c: sliding windows of 3600000 ms -> sliding windows of 7200000 ms",
        ),
        (
            counting(Windows.unlimited()),
            counting(Windows.unlimited("1h")),
            "store c: one window from 0 ms on -> one window from 3600000 ms on",
        ),
        (counting(hour()), counting(Windows.sliding("1h")), "store c: windows of 3600000 ms -> sliding windows"),
        (
            suppressed(until_window_closes()),
            suppressed(until_time_limit("1h")),
            "store s-store: held until their window closes -> held from their first update on",
        ),
    ],
)
def test_the_definition_of_windows_cannot_be_edited(home: Home, before: Topology, after: Topology, reason: str) -> None:
    home.put("in", *FIVE)
    home.run(before)
    with pytest.raises(FingerprintError, match=reason):
        home.run(after)
    home.put("in", *LATER)
    home.run(before)


class Seen(Processor):
    """Count a key's records within an hour, with a store of the user's own."""

    def init(self, context: ProcessorContext) -> None:
        self.context, self.seen = context, context.get_state_store("seen")

    def process(self, record: Record) -> None:
        start = record.timestamp // HOUR * HOUR
        count = (self.seen.fetch(record.key, start) or 0) + 1
        self.seen.put(record.key, count, start)
        self.context.forward(record.with_value(str(count)))


def seeing(retention: str, *, size: str = "1h", logged: bool = True) -> Topology:
    store = window_store("seen", window_size=size, retention=retention, key=str, value=int, logged=logged)

    def describe(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).process(Seen, stores=[store]).to("out", value=str)

    return built(describe)


def test_a_users_own_window_store(home: Home) -> None:
    home.put("in", *FIVE)
    home.run(seeing("1h"))
    home.put("in", *LATER)
    assert home.run(seeing("7d")) == [("a", "6")]
    with pytest.raises(FingerprintError, match="store seen: windows of 3600000 ms -> windows of 60000 ms"):
        home.run(seeing("7d", size="1m"))


def test_a_store_without_a_changelog_starts_empty_if_its_rows_would_be_misread(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    home.put("in", *FIVE)
    home.run(seeing("1h", logged=False))
    home.put("in", *LATER)
    assert home.run(seeing("1h", logged=False)) == [("a", "6")]
    home.put("in", *LATER)
    assert home.run(seeing("7d", logged=False)) == [("a", "1")]
    assert (
        'store "seen" starts empty: it has no changelog, and its rows are stored as rows of 3600000 ms' in caplog.text
    )


# -- types


@dataclass
class Item:
    price: int = 0


@dataclass
class Total:
    total: int = 0
    items: list[Item] = field(default_factory=list)


def totals(kind: type) -> Topology:
    def describe(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        shown(grouped.aggregate(lambda: kind(), lambda key, value, row: row, value=kind, name="rows"))

    return built(describe)


def renamed() -> type:
    @dataclass
    class Renamed:
        amount: int = 0
        items: list[Item] = field(default_factory=list)

    return Renamed


def grown() -> type:
    @dataclass
    class Grown:
        total: int | None = 0
        items: list[Item] = field(default_factory=list)
        note: str = ""

    return Grown


def required() -> type:
    @dataclass
    class Required:
        note: str
        total: int = 0
        items: list[Item] = field(default_factory=list)

    return Required


def retyped() -> type:
    @dataclass
    class Price:
        price: str = ""

    @dataclass
    class Retyped:
        total: int = 0
        items: list[Price] = field(default_factory=list)

    Retyped.__annotations__["items"] = list[Price]
    return Retyped


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (renamed(), 'store rows: field "total" is gone, "amount" is new'),
        (required(), 'store rows: field "note" is new and has no default'),
        (retyped(), r'store rows: field "items\[\].price": int -> str'),
    ],
)
def test_fields_missing_in_old_rows(home: Home, kind: type, reason: str) -> None:
    home.put("in", *FIVE)
    home.run(totals(Total))
    with pytest.raises(FingerprintError, match=reason):
        home.run(totals(kind))


def keyed(kind: type) -> Topology:
    def describe(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).group_by(lambda key, value: kind(), key=kind).count(name="rows")

    return built(describe)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (grown(), 'store rows: field of the key "note" is new, so rows under the old keys would not be found'),
        (Item, 'store rows: field of the key .* is gone, "price" is new'),
    ],
)
def test_the_fields_of_a_key_cannot_be_edited(home: Home, kind: type, reason: str) -> None:
    home.put("in", *FIVE)
    home.run(keyed(Total))
    with pytest.raises(FingerprintError, match=reason):
        home.run(keyed(kind))


def test_a_removed_field_is_only_reported_so_that_a_version_can_be_undone(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    @dataclass
    class Longer(Total):
        note: str = ""

    home.put("in", *FIVE)
    home.run(totals(Longer))
    home.put("in", *LATER)
    assert home.run(totals(Total)) == [("a", "Total(total=0, items=[])")]
    assert 'new since the last start: store rows, field "note" is gone' in caplog.text


def test_a_new_field_with_a_default_is_only_reported(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    home.put("in", *FIVE)
    home.run(totals(Total))
    home.put("in", *LATER)
    assert home.run(totals(grown())) == [("a", "grown.<locals>.Grown(total=0, items=[], note='')")]
    assert 'new since the last start: store rows, field "note"' in caplog.text


def test_a_record_class_can_be_renamed(home: Home) -> None:
    @dataclass
    class Sum:
        total: int = 0
        items: list[Item] = field(default_factory=list)

    home.put("in", *FIVE)
    home.run(totals(Total))
    home.put("in", *LATER)
    assert len(home.run(totals(Sum))) == 1


def by_records(kind: Any) -> Topology:
    """Stores and repartition topics with a record class somewhere in their types."""

    def describe(builder: StreamsBuilder) -> None:
        left, right = (builder.table(topic, key=kind, value=kind, name=topic) for topic in ("in", "right"))
        left.left_join(right, lambda one, other: one, foreign_key=lambda row: row, name="joined")
        grouped = left.group_by(lambda key, row: (row, row), key=kind)
        grouped.aggregate(list, lambda key, row, rows: rows, lambda key, row, rows: rows, value=list[kind], name="rows")
        stream = left.to_stream()
        stream.outer_join(right.to_stream(), lambda one, other: one, within="1h", store="streams")
        windows = stream.group_by_key().windowed_by(hour()).reduce(lambda row, value: value, name="windows")
        windows.suppress(until_window_closes(), name="held")

    return built(describe)


def test_stores_and_topics_do_not_depend_on_the_names_of_record_classes(home: Home) -> None:
    @dataclass
    class Sum:
        total: int = 0
        items: list[Item] = field(default_factory=list)

    home.run(by_records(Total))
    home.run(by_records(Sum))


def test_old_records_in_a_repartition_topic(home: Home) -> None:
    def sums(kind: Any) -> Topology:
        def describe(builder: StreamsBuilder) -> None:
            values = builder.stream("in", key=str, value=str).map_values(kind, value=kind)
            grouped = values.group_by(lambda key, value: "all", key=str)
            shown(grouped.aggregate(lambda: 0.0, lambda key, value, row: row + value, value=float, name="sum"))

        return built(describe)

    home.put("in", *[("a", "5", number) for number in range(1000)])
    worker = home.start(sums(int), chunk=100)
    while home.log.end(TopicPartition("up-sum-repartition", 0)) < 600:
        worker.run_once(0.001)
    worker.close()
    with pytest.raises(FingerprintError, match="topic up-sum-repartition: key str, value int -> key str, value float"):
        home.run(sums(float))
    assert home.run(sums(int))[-1] == ("all", "5000.0")


def test_a_renamed_store_is_told_from_one_that_is_gone(home: Home) -> None:
    def counted(*names: str) -> Topology:
        def describe(builder: StreamsBuilder) -> None:
            grouped = builder.stream("in", key=str, value=str).group_by_key()
            for name in names:
                shown(grouped.count(name=name))

        return built(describe)

    home.put("in", *FIVE)
    home.run(counted("rows", "kept"))
    hint = 'gone, and store totals is new; if that is its new name, give it the old one again (name="rows")'
    with pytest.raises(FingerprintError) as refused:
        home.run(counted("totals", "kept"))
    assert hint in str(refused.value)
    with pytest.raises(FingerprintError) as refused:
        home.run(counted("kept"))
    assert "is new" not in str(refused.value)
