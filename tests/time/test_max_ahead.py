"""Records far ahead of the wall clock are processed, but do not move stream time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtopo import (
    KStream,
    MaxAhead,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    Timestamp,
    Topology,
    Windows,
    Worker,
    until_time_limit,
    until_window_closes,
    window_store,
)
from streamtopo.errors import StepError, TopologyError
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.testing import Driver, DriverRecord

NOW = 1_795_000_000_000
YEAR_3000 = 32_503_680_000_000
HOUR = 3_600_000

Shape = Callable[[KStream], KStream]


def keys(table: Any) -> KStream:
    stream: KStream = table.to_stream(lambda window, _: f"{window.key} {window.start - NOW}", key=str)
    return stream


def tumbling(stream: KStream) -> KStream:
    return keys(stream.group_by_key().windowed_by(Windows.tumbling("10s", grace="5s")).count())


def on_close(stream: KStream) -> KStream:
    return keys(stream.group_by_key().windowed_by(Windows.hopping("10s", every="5s"), emit="on_close").count())


def sessions(stream: KStream) -> KStream:
    return keys(stream.group_by_key().windowed_by(Windows.session("3s", grace="5s")).count())


def sessions_on_close(stream: KStream) -> KStream:
    return keys(stream.group_by_key().windowed_by(Windows.session("1s"), emit="on_close").count())


def sliding(stream: KStream) -> KStream:
    return keys(stream.group_by_key().windowed_by(Windows.sliding("3s", grace="5s")).count())


def suppressed(stream: KStream) -> KStream:
    table = stream.group_by_key().windowed_by(Windows.tumbling("10s")).count()
    return keys(table.suppress(until_window_closes()))


def held(stream: KStream) -> KStream:
    return stream.to_table().suppress(until_time_limit("2s")).to_stream()


def joined(stream: KStream) -> KStream:
    other = stream.filter(lambda key, value: value % 3 == 0)
    return stream.left_join(other, lambda one, two: f"{one} {two}", within="2s", grace="1s", value=str)


def joined_with_history(stream: KStream) -> KStream:
    table = stream.filter(lambda key, value: value % 3 == 0).to_table(store="rows", versioned="5s")
    return stream.left_join(table, lambda one, row: f"{one} {row}", grace="1s", value=str)


def deduplicated(stream: KStream) -> KStream:
    return stream.deduplicate("5s")


def repartitioned(stream: KStream) -> KStream:
    regrouped = stream.group_by(lambda key, value: value % 2, key=int)
    return keys(regrouped.windowed_by(Windows.tumbling("10s", grace="100s")).count())


class Ticks(Processor):
    """Report every two seconds of stream time."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        context.schedule("2s", "stream_time", lambda time: context.forward(Record("tick", time, time)))

    def process(self, record: Record) -> None:
        at = self.context.current_stream_time_ms()
        if not record.key.startswith("wild"):
            self.context.forward(Record(record.key, at, record.timestamp))


def ticking(stream: KStream) -> KStream:
    return stream.process(Ticks, key=str, value=int)


SHAPES: list[Shape] = [
    tumbling,
    on_close,
    sessions,
    sessions_on_close,
    sliding,
    suppressed,
    held,
    joined,
    joined_with_history,
    deduplicated,
    repartitioned,
    ticking,
]

Sent = list[tuple[str, int, int]]


def topology(shape: Shape, **options: Any) -> Topology:
    builder = StreamsBuilder("ahead")
    shape(builder.stream("in", key=str, value=int, **options)).to("out")
    return builder.build()


def results(shape: Shape, sent: Sent, *, sizes: int = 1000, restart: bool = False, **options: Any) -> list[Any]:
    """Return the outputs of the normal records, sent `sizes` at a time; after merges each window's largest count."""
    driver = Driver(topology(shape), wall_clock_ms=NOW, max_ahead="1h", **options)
    found: list[Any] = []
    for start in range(0, len(sent), sizes):
        some = [DriverRecord("in", key, value, time, -1) for key, value, time in sent[start : start + sizes]]
        driver.send_all(some)
        normal = [one for one in driver.records("out") if "wild" not in one.key and one.timestamp < NOW + HOUR]
        found += [(one.key, one.value, one.timestamp) for one in normal]
        if restart:
            driver.restart()
    assert driver.dropped().keys() <= {"late", "null key", "older than the history", "expired"}
    if shape is repartitioned:
        return sorted({key: value for key, value, _ in sorted(found)}.items())
    return sorted(found, key=repr)


NORMAL = [(f"k{number % 4}", number, NOW + number * 500) for number in range(60)]
"""Half a minute of records in perfect order: none is late."""


def with_records_ahead(sent: Sent, *, every: int) -> Sent:
    """Return the records with some far ahead inserted, two of them duplicates."""
    mixed: Sent = []
    for number, row in enumerate(sent):
        if number % every == 0:
            mixed += [("wild", number + 1, YEAR_3000 + number), ("wild 2", 3, NOW + HOUR + 1)]
        mixed.append(row)
    return mixed


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("partitions", [1, 3])
def test_other_records_give_the_same_results(shape: Shape, partitions: int) -> None:
    far = with_records_ahead(NORMAL, every=20)
    wanted = results(shape, NORMAL, partitions=partitions)
    assert wanted
    assert results(shape, far, partitions=partitions) == wanted
    assert results(shape, far, partitions=partitions, chunk=1) == wanted
    cached = results(shape, NORMAL, partitions=partitions, cache=10_000_000)
    assert results(shape, far, partitions=partitions, cache=10_000_000) == cached
    assert results(shape, far, partitions=partitions, sizes=7, chunk=3) == results(
        shape, NORMAL, partitions=partitions, sizes=7, chunk=3
    )


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape is not ticking])
def test_other_records_give_the_same_results_across_restarts(shape: Shape) -> None:
    assert results(shape, with_records_ahead(NORMAL, every=20), sizes=7, restart=True) == results(shape, NORMAL)


def test_records_ahead_do_not_affect_the_order_between_inputs() -> None:
    """Otherwise all records of the other input would come first, and later ones would be late."""
    builder = StreamsBuilder("ahead")
    left, right = (builder.stream(topic, key=str, value=int) for topic in ("left", "right"))
    left.join(right, lambda one, other: one + other, within="1s").to("out", value=int)

    def joined(*far: DriverRecord) -> list[Any]:
        driver = Driver(builder.build(), wall_clock_ms=NOW, max_ahead="1h")
        normal = [DriverRecord(topic, "a", 1, NOW + 100 * n) for topic in ("left", "right") for n in range(100)]
        driver.send_all([*normal[:50], *far, *normal[50:]])
        return driver.read("out")

    far = DriverRecord("left", "a", 1, YEAR_3000)
    assert joined(far) == joined() != []


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 40_000).map(lambda ahead: NOW - 5000 + ahead)
        ),
        max_size=30,
    ),
    far=st.lists(st.tuples(st.integers(0, 30), st.integers(HOUR + 1, 1 << 50)), min_size=1, max_size=5),
    chunk=st.sampled_from([1, 3, 10_000]),
    shape=st.sampled_from(SHAPES),
)
@settings(deadline=None, max_examples=150)
def test_any_records_mixed_with_records_far_ahead(
    rows: Sent, far: list[tuple[int, int]], chunk: int, shape: Shape
) -> None:
    mixed = list(rows)
    for place, ahead in far:
        mixed.insert(place, ("wild", 3, NOW + ahead))
    assert results(shape, mixed, chunk=chunk) == results(shape, rows)


def test_the_window_of_a_record_ahead_opens_and_closes_in_its_time() -> None:
    driver = Driver(topology(on_close), wall_clock_ms=NOW, max_ahead="1h")
    later = NOW + 2 * HOUR
    driver.send("in", 1, key="a", timestamp=later)
    driver.send("in", 2, key="a", timestamp=NOW)
    driver.restart()
    driver.send("in", 2, key="a", timestamp=later)
    assert driver.read("out") == []
    driver.advance(wall_clock_ms=2 * HOUR)
    driver.send("in", 3, key="b", timestamp=later + 60_000)
    windows = [
        (f"a {start - NOW}", count) for start, count in ((NOW - 5000, 1), (NOW, 1), (later - 5000, 2), (later, 2))
    ]
    assert driver.read("out") == windows


@pytest.mark.parametrize("windows", [Windows.session("10s"), Windows.sliding("10s")])
def test_windows_ahead_continue_after_a_restart(windows: Any) -> None:
    builder = StreamsBuilder("ahead")
    counts = builder.stream("in", key=str, value=int).group_by_key().windowed_by(windows).count(name="counts")
    counts.to_stream(lambda window, _: window.key, key=str).to("out")
    driver = Driver(builder.build(), wall_clock_ms=NOW, max_ahead="1h")
    for time in (YEAR_3000, NOW, YEAR_3000 + 1000):
        driver.send("in", 1, key="a", timestamp=time)
        driver.restart()
    assert [value for _, value in driver.read("out") if value is not None][-1] == 2
    assert max(value for _, value in driver.store("counts").all()) == 2


def test_duplicates_of_records_ahead_are_found() -> None:
    driver = Driver(topology(deduplicated), wall_clock_ms=NOW, max_ahead="1h")
    for key, time in [("a", YEAR_3000), ("a", NOW), ("a", YEAR_3000 + 1), ("a", NOW + 1), ("b", NOW + 1)]:
        driver.send("in", 1, key=key, timestamp=time)
        driver.restart()
    assert [(one.key, one.timestamp) for one in driver.records("out")] == [("a", YEAR_3000), ("a", NOW), ("b", NOW + 1)]


@pytest.mark.parametrize("chunk", [1, 10_000])
def test_final_results_stay_final_after_a_record_ahead_but_within_the_limit(chunk: int) -> None:
    """The window's updates then have its time, which stream time has not reached."""
    builder = StreamsBuilder("final")
    counts = builder.stream("in", key=str, value=int).group_by_key().windowed_by(Windows.tumbling("10m", grace="1m"))
    keys(counts.count().suppress(until_window_closes())).to("out")
    start, minute = NOW // 600_000 * 600_000, 60_000
    driver = Driver(builder.build(), wall_clock_ms=start, max_ahead="5m", chunk=chunk)
    driver.send("in", 1, key="a", timestamp=start + 9 * minute)
    driver.advance(wall_clock_ms=6 * minute)
    before = [DriverRecord("in", "b", 1, start - later) for later in (2, 1)]
    driver.send_all([*before, DriverRecord("in", "a", 1, start), *before])
    assert driver.read("out") == []
    driver.send("in", 1, key="c", timestamp=start + 11 * minute)
    driver.send("in", 1, key="c", timestamp=start + 11 * minute)
    assert [count for _, count in driver.read("out")] == [4, 2]


def test_records_within_the_limit_move_clocks() -> None:
    driver = Driver(topology(on_close), wall_clock_ms=NOW, max_ahead="1h")
    driver.send("in", 1, key="a", timestamp=NOW)
    driver.send("in", 1, key="b", timestamp=NOW + HOUR)
    assert len(driver.read("out")) == 2
    assert [task.horizons.ahead.beyond for task in driver.worker.tasks.values()] == [0]


class Alarm(Processor):
    """Report the time once an hour, by the wall clock or by stream time."""

    clock: Literal["wall_clock", "stream_time"] = "wall_clock"

    def init(self, context: ProcessorContext) -> None:
        context.schedule("1h", self.clock, lambda time: context.forward(Record("alarm", 1, time)))

    def process(self, record: Record) -> None:
        pass


class StreamAlarm(Alarm):
    clock = "stream_time"


class Last(Processor):
    """Remember what arrives for an hour."""

    def init(self, context: ProcessorContext) -> None:
        self._seen = context.get_state_store("seen")

    def process(self, record: Record) -> None:
        self._seen.put(record.key, record.value, record.timestamp)


@pytest.mark.parametrize("alarm", [Alarm, StreamAlarm])
def test_scheduled_calls_move_clocks_after_any_time_without_records(alarm: type[Alarm]) -> None:
    """The limit is relative to the time of the call, not to the last record."""
    builder = StreamsBuilder("alarms")
    alarms = builder.stream("in", key=str, value=int).process(alarm, key=str, value=int)
    alarms.process(Last, stores=[window_store("seen", window_size="1h", retention="1h", key=str, value=int)])
    driver = Driver(builder.build(), wall_clock_ms=NOW, max_ahead="1m", idle_advance="10m")
    driver.send("in", 1, key="a", timestamp=NOW)
    for _ in range(10):
        driver.advance(wall_clock_ms=HOUR)
    (seen,) = [window.start for window, _ in driver.store("seen").all()]
    assert seen > NOW + 9 * HOUR


def test_the_driver_has_no_limit_by_default() -> None:
    driver = Driver(topology(on_close))
    driver.send("in", 1, key="a", timestamp=NOW)
    driver.send("in", 1, key="b", timestamp=YEAR_3000)
    assert len(driver.read("out")) == 2


# -- limits of a source


def test_a_source_has_its_own_limit_and_so_have_its_internal_topics() -> None:
    builder = StreamsBuilder("bookings")
    regrouped = builder.stream("in", key=str, value=int, max_ahead=None).group_by(lambda key, value: "all", key=str)
    keys(regrouped.windowed_by(Windows.tumbling("10s"), emit="on_close").count()).to("out")
    driver = Driver(builder.build(), wall_clock_ms=NOW, max_ahead="1h")
    driver.send("in", 1, key="a", timestamp=NOW)
    driver.send("in", 1, key="b", timestamp=YEAR_3000)
    assert driver.read("out") == [("all 0", 1)]


def test_a_record_ahead_is_skipped_or_fails_if_configured() -> None:
    driver = Driver(topology(held, max_ahead=MaxAhead("10m", then="skip")), wall_clock_ms=NOW)
    for time in (NOW, YEAR_3000, NOW + 600_000, NOW + 600_001):
        driver.send("in", 1, key="a", timestamp=time)
    assert driver.dropped() == {"too far ahead": 2}
    driver = Driver(topology(held, max_ahead=MaxAhead(then="fail")), wall_clock_ms=NOW)
    with pytest.raises(StepError, match=r"in/0 offset 0: .*\(3000-01-01T00:00:00Z\) is .* ahead of the wall clock"):
        driver.send("in", 1, key="a", timestamp=YEAR_3000)


def test_partition_time_does_not_follow_records_ahead() -> None:
    builder = StreamsBuilder("times")
    stamp = Timestamp("at", invalid="partition_time")
    builder.stream("in", value=dict, timestamp=stamp).map_values(lambda value: 1, value=int).to("out")
    driver = Driver(builder.build(), wall_clock_ms=NOW, max_ahead="1h")
    sent = [NOW, YEAR_3000, -1]
    driver.send_all(DriverRecord("in", None, {"at": time}, 0) for time in sent)
    for time in sent:
        driver.send("in", {"at": time})
    assert [one.timestamp for one in driver.records("out")] == [NOW, YEAR_3000, NOW] * 2


@pytest.mark.parametrize("given", [MaxAhead, dict])
def test_an_invalid_limit_is_refused_at_once(given: Any) -> None:
    with pytest.raises(TopologyError, match="give"):
        topology(held, max_ahead=MaxAhead("-1h" if given is dict else -5, then="keep" if given is MaxAhead else "drop"))  # type: ignore[arg-type]


# -- warnings


def test_records_ahead_are_counted_and_warned_about_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver(topology(tumbling), wall_clock_ms=NOW, max_ahead="1h")
    with caplog.at_level(logging.WARNING, "streamtopo"):
        driver.send("in", 1, key="a", timestamp=NOW)
        driver.send("in", 1, key="a", timestamp=YEAR_3000)
        driver.send("in", 1, key="a", timestamp=YEAR_3000)
    (line,) = caplog.messages
    assert line.startswith(f"in/0 offset 1: its time {YEAR_3000} (3000-01-01T00:00:00Z) is 355,425 days ahead of ")
    assert "max_ahead=None" in line
    assert driver.worker.metrics().ahead == 2
    driver.advance(wall_clock_ms=60_000)
    with caplog.at_level(logging.WARNING, "streamtopo"):
        driver.send("in", 1, key="a", timestamp=1 << 62)
    assert "(after the year 9999)" in caplog.messages[1]


def test_a_clock_moved_far_ahead_by_an_older_version_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver(topology(tumbling), wall_clock_ms=NOW)
    driver.send("in", 1, key="a", timestamp=YEAR_3000)
    with caplog.at_level(logging.WARNING, "streamtopo"):
        driver.crash()
        Driver(topology(tumbling), wall_clock_ms=NOW, log=driver.log, max_ahead="1h")
    (line,) = caplog.messages
    assert line.startswith(
        "task 0_0 starts with a stream time that a record from the future left behind: its stream time 32503680000000 "
    )


def test_a_wall_clock_that_was_never_set_does_not_stop_windows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """A device without a battery for its clock starts in 1970; its records have the time of their source."""
    monkeypatch.setattr("time.time_ns", lambda: 300_000_000_000)
    log = MemoryLog()
    for topic in ("in", "out"):
        log.create(Topic(topic, 1))
    columns = Columns([b"a", b"b"], [bytes(8), bytes(8)], [NOW, NOW + 60_000])
    with caplog.at_level(logging.WARNING, "streamtopo"):
        worker = Worker(topology(on_close, max_ahead=MaxAhead(then="skip")), log, state_dir=str(tmp_path))
        log.append(TopicPartition("in", 0), columns)
        while worker.run_once():
            pass
    assert len(log.read(TopicPartition("out", 0), 0, 1000).columns.keys) == 2
    (line,) = caplog.messages
    assert line.startswith("the wall clock of this machine was never set: it shows 1970-01-01T00:05:00Z. ")
    monkeypatch.setattr("time.time_ns", lambda: NOW * 1_000_000)
    log.append(TopicPartition("in", 0), Columns([b"a"], [bytes(8)], [YEAR_3000]))
    while worker.run_once():
        pass
    assert worker.metrics().dropped["too far ahead"] == 1
    worker.close()


# -- a worker on disk


class Once(Processor):
    """Fail once, at a record after the one far ahead."""

    failed = False

    def process(self, record: Record) -> None:
        if record.value == 13 and not Once.failed:
            Once.failed = True
            raise ValueError("once")
        self.context.forward(record)


def test_a_repeated_round_uses_the_same_limit(tmp_path: Path) -> None:
    def app() -> Topology:
        builder = StreamsBuilder("again")
        stream = builder.stream("in", key=str, value=int).process(Once, key=str, value=int)
        keys(stream.group_by_key().windowed_by(Windows.session("1s"), emit="on_close").count()).to("out")
        return builder.build()

    def run(name: str, *, failed: bool) -> list[bytes | None]:
        Once.failed = failed
        log = MemoryLog()
        for topic in ("in", "out"):
            log.create(Topic(topic, 1))
        rows = with_records_ahead(NORMAL, every=20)
        stamps = [time for _, _, time in rows]
        encoded = [(key.encode(), value.to_bytes(8)) for key, value, _ in rows]
        columns = Columns([key for key, _ in encoded], [value for _, value in encoded], stamps)
        log.append(TopicPartition("in", 0), columns)
        worker = Worker(app(), log, state_dir=str(tmp_path / name), on_error="skip", now=lambda: NOW, commit_interval=1)
        while worker.run_once():
            pass
        worker.close()
        return [*log.read(TopicPartition("out", 0), 0, 1000).columns.keys]

    undisturbed = run("a", failed=True)
    assert len(undisturbed) > 30
    assert sorted(map(repr, run("b", failed=False))) == sorted(map(repr, undisturbed))
