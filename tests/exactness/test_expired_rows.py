"""Results are the same whether an expired row is still in memory, still in the store, or gone from both."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo import StreamsBuilder, Topology, Windows
from streamtopo.stores.rows.layout import prefix_of, timed_prefix_of
from streamtopo.testing import Driver, DriverRecord

MINUTE = 60_000
KINDS: dict[str, Any] = {
    "tumbling": Windows.tumbling(2 * MINUTE, grace=2 * MINUTE),
    "hopping": Windows.hopping(3 * MINUTE, every=MINUTE, grace=2 * MINUTE),
    "sliding": Windows.sliding(2 * MINUTE, grace=2 * MINUTE),
    "session": Windows.session(MINUTE, grace=3 * MINUTE),
}
CACHES = st.sampled_from([0, 1 << 20])


def merge(_: str, one: Any, other: Any) -> Any:
    return one + other


def cogrouped(kind: str, init: Any, group: Any) -> Topology:
    """Aggregate two halves of a stream, each with its own stream time; and the windows of each key."""

    def add(_: str, value: Any, row: Any) -> Any:
        return row + value

    builder = StreamsBuilder("expired")
    both = builder.stream("in", key=str, value=list)  # one topic, so that the order of records is the same in any chunk
    halves = both.filter(lambda _, value: value[0] == "one"), both.filter(lambda _, value: value[0] == "other")
    one, other = (half.map_values(lambda value: value[1], value=init).group_by_key() for half in halves)
    windowed = one.cogroup(add).cogroup(other, add).windowed_by(KINDS[kind])
    merger = [merge] if kind == "session" else []
    table = windowed.aggregate(init, *merger, value=init, name="rows")
    table.to_stream(lambda window, _: f"{window.key} {window.start}", key=str).to("windows")
    groups = table.group_by(lambda window, row: (window.key, row), key=str, value=init)
    groups.aggregate(init, *group, value=init).to_stream().to("groups")
    return builder.build()


def spelled(kind: str) -> Topology:
    return cogrouped(kind, str, [lambda _, row, text: f"{text}+{row}", lambda _, row, text: f"{text}-{row}"])


def summed(kind: str) -> Topology:
    return cogrouped(kind, int, [lambda _, row, total: total + row, lambda _, row, total: total - row])


def stored(driver: Driver, store: str) -> int:
    """Return the number of stored rows, visible or not."""
    prefix, past = prefix_of(store), timed_prefix_of(store)
    return sum(len(list(one.scan(prefix, past))) for one in driver._stores.values())


FAR_BEHIND = [("other", "a", 11), ("one", "b", 60), ("other", "c", 11), ("other", "d", 11)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cache", [0, 1 << 20])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_each_record_of_an_expired_window_starts_it_again(
    kind: str, cache: int, restarts: bool, together: bool
) -> None:
    """As in Kafka Streams there is no old value. The row is not kept, so it is not stored permanently."""
    records = [DriverRecord("in", "k", [half, value], minute * MINUTE) for half, value, minute in FAR_BEHIND]
    driver = Driver(spelled(kind), cache=cache)
    for some in [records[:1], records[1:]] if together else [[record] for record in records]:
        driver.send_all(some)
        if restarts:
            driver.restart()
    windows = 3 if kind == "hopping" else 1
    assert driver.read("groups")[-1] == ("k", "".join(f"+{value}" * windows for value in "abcd"))
    assert [value for _, value in driver.read("windows")] == [value for value in "abcd" for _ in range(windows)]
    for _ in range(3):
        driver.send("in", ["one", "b"], key="other", timestamp=60 * MINUTE)
    assert stored(driver, "rows") == 2 * windows, "rows of the last three records"


RECORDS = st.lists(
    st.builds(
        lambda half, key, value, minute: DriverRecord("in", key, [half, value], minute * MINUTE + value),
        st.sampled_from(["one", "other"]),
        st.sampled_from("kl"),
        st.integers(1, 9),
        st.sampled_from([10, 11, 12, 13, 15, 20, 40]),
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.parametrize("kind", KINDS)
@given(records=RECORDS, cuts=st.sets(st.integers(0, 30), max_size=4), chunk=st.sampled_from([1, 10_000]))
def test_sums_of_windows_are_the_same_with_the_record_cache(
    kind: str, records: list[DriverRecord], cuts: set[int], chunk: int
) -> None:
    """Old values that are missing, or sent twice, would stay in a sum."""
    each, cached = Driver(summed(kind), chunk=chunk), Driver(summed(kind), chunk=chunk, cache=1 << 20)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(records)], strict=True):
        for driver in (each, cached):
            driver.send_all(records[start:stop])
    for topic in ("groups", "windows"):
        assert there(cached.read(topic)) == there(each.read(topic))


def there(rows: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return {key: value for key, value in dict(rows).items() if value is not None}


@pytest.mark.parametrize("sizes", [[4], [1, 1, 1, 1], [2, 2]])
def test_a_session_as_old_as_the_retention_is_emitted_when_it_closes(sizes: list[int]) -> None:
    """It is not too late, although its segment could be deleted at once."""
    builder = StreamsBuilder("expired")
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    table = grouped.windowed_by(KINDS["session"], emit="on_close").count()
    table.to_stream(lambda window, _: f"{window.key} {window.start}", key=str).to("out")
    last = 20 * MINUTE - 1
    rows = [("other", last + 4 * MINUTE), ("k", last), ("other", last + 4 * MINUTE), ("other", last + 4 * MINUTE + 1)]
    records = [DriverRecord("in", key, "", time) for key, time in rows]
    driver = Driver(builder.build())
    for size in sizes:
        driver.send_all(records[:size])
        del records[:size]
    assert driver.read("out") == [(f"k {last}", 1)]


def test_a_skipped_record_expires_no_rows() -> None:
    """Its time was already that of the store when another step failed."""

    def check(value: str) -> str:
        if value == "bad":
            raise ValueError(value)
        return value

    builder = StreamsBuilder("expired")
    stream = builder.stream("in", key=str, value=str)
    stream.deduplicate(2 * MINUTE).to("out")
    stream.map_values(check).to("checked")
    driver = Driver(builder.build(), on_error="skip")
    for value, time in [("a", 600_000), ("b", 820_000), ("bad", 1_000_000), ("c", 820_000)]:
        driver.send("in", value, key="k", timestamp=time - 1)
    assert [value for _, value in driver.read("out")] == ["a", "b"]
