"""Versioned tables and stores: what was valid when, compared with a model that keeps everything."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo import Processor, Record, StreamsBuilder, Topology, versioned_store
from streamtopo.errors import StoreError
from streamtopo.serdes import STR
from streamtopo.stores.rows.versions import Chain, Version, as_of, between, chain_serde, latest, with_version
from streamtopo.testing import Driver, DriverRecord

HISTORY = 5
PUTS = st.lists(st.tuples(st.integers(0, 20), st.sampled_from(["a", "b", None])), max_size=12)


@given(puts=PUTS)
def test_version_chains(puts: list[tuple[int, str | None]]) -> None:
    chain: Chain = ()
    known: dict[int, str | None] = {}
    now = -1
    for time, value in puts:
        if time < now - HISTORY:
            continue
        now = max(now, time)
        known[time] = value
        chain, valid_to = with_version(chain, time, value, now - HISTORY)
        assert valid_to == min((other for other in known if other > time), default=-1)
        assert chain_serde(STR).decode(chain_serde(STR).encode(chain)) == chain
        for time_asked in range(now - HISTORY, now + 2):
            assert valid_from(as_of(chain, time_asked, now - HISTORY)) == valid(known, time_asked)
        assert valid_from(latest(chain)) == valid(known, 1000)
        seen = [valid_from(one) for one in between(chain, None, None, now - HISTORY)]
        assert seen == [(known[at], at) for at in sorted(known) if counts(known, at, now)]


@given(puts=PUTS)
def test_a_range_of_times_equals_reads_at_its_times(puts: list[tuple[int, str | None]]) -> None:
    """Neither finds expired versions."""
    store = ledger().store("ledger")
    for time, value in puts:
        store.put("k", value, time)
        store.put("other", "later", time + 3)
    at = {time: store.get_as_of("k", time) for time in range(25)}
    for first, last in product([None, *at], [None, *at]):
        times = [time for time in at if (first is None or first <= time) and (last is None or time <= last)]
        found = {version.timestamp: version for time in times if (version := at[time])}
        assert store.range("k", first, last) == [found[time] for time in sorted(found)]


def ledger() -> Driver:
    builder = StreamsBuilder("ledger")
    store = versioned_store("ledger", key=str, value=str, history=HISTORY)
    builder.stream("in", key=str, value=str).process(Ledger, stores=[store], value=list).to("out")
    return Driver(builder.build())


def valid_from(version: Version | None) -> tuple[str, int] | None:
    return version and (version.value, version.timestamp)


def valid(known: dict[int, str | None], time_asked: int) -> tuple[str, int] | None:
    at = max((time for time in known if time <= time_asked), default=None)
    value = None if at is None else known[at]
    return None if at is None or value is None else (value, at)


def counts(known: dict[int, str | None], at: int, now: int) -> bool:
    following = min((time for time in known if time > at), default=None)
    return known[at] is not None and (following is None or following > now - HISTORY)


def joined(grace: int | None = None) -> Topology:
    builder = StreamsBuilder("versions")
    prices = builder.table("prices", key=str, value=list, versioned=100, name="prices")
    orders = builder.stream("orders", key=str, value=list)
    if grace is None:
        orders.left_join(prices, pair).to("out")
    else:
        orders.left_join(prices, pair, grace=grace).to("out")
    return builder.build()


def pair(order: list[int], price: list[int] | None) -> list[object]:
    """Change the row in place: a stored version must not notice."""
    if price is not None:
        price.append(99)
    return [*order, price and price[:1]]


def test_rows_as_of_the_records_own_times() -> None:
    driver = Driver(joined())
    for time, price in ((10, [1]), (30, [3]), (20, [2]), (40, None)):
        driver.send("prices", price, key="tea", timestamp=time)
    for time in (5, 10, 19, 25, 35, 45):
        driver.send("orders", [time], key="tea", timestamp=time)
    assert [value for _, value in driver.read("out")] == [
        [5, None], [10, [1]], [19, [1]], [25, [2]], [35, [3]], [45, None],
    ]  # fmt: skip


def test_records_wait_for_late_updates_and_survive_a_restart() -> None:
    driver = Driver(joined(grace=10))
    driver.send("orders", [1], key="tea", timestamp=5, headers=(("trace", b"1"),))
    driver.send("prices", [7], key="tea", timestamp=4)
    driver.restart()
    assert driver.records("out") == []
    driver.send("orders", [2], key="tea", timestamp=15)
    assert driver.records("out") == [DriverRecord("out", "tea", [1, [7]], 5, 0, (("trace", b"1"),))]
    driver.send("orders", [3], key="tea", timestamp=4)
    assert [value for _, value in driver.read("out")] == [[3, [7]]]


@pytest.mark.parametrize("chunk", [1, 3, 10_000])
@given(
    sent=st.lists(
        st.tuples(st.sampled_from(["prices", "orders"]), st.sampled_from(["a", "b"]), st.integers(0, 300)), max_size=30
    ),
    grace=st.sampled_from([None, 0, 20, 100]),
)
def test_any_chunk_size_gives_the_results_of_a_model(
    chunk: int, sent: list[tuple[str, str, int]], grace: int | None
) -> None:
    """One topic at a time, so that the order is clear: first all prices, then all orders."""
    prices = [one for one in sent if one[0] == "prices"]
    orders = [one for one in sent if one[0] == "orders"]
    driver = Driver(joined(grace), chunk=chunk)
    for some in (prices, orders):
        driver.send_all([DriverRecord(topic, key, [number], time) for number, (topic, key, time) in enumerate(some)])
    assert [(row.key, row.value, row.timestamp) for row in driver.records("out")] == model(prices, orders, grace)


def model(
    prices: list[tuple[str, str, int]], orders: list[tuple[str, str, int]], grace: int | None
) -> list[tuple[str, list[object], int]]:
    now, known = -1, dict[str, dict[int, int]]()
    for number, (_, key, time) in enumerate(prices):
        if time >= now - 100:
            now = max(now, time)
            known.setdefault(key, {})[time] = number
    out: list[tuple[int, str, int]] = []
    waiting: list[tuple[int, str, int]] = []
    reached = -1
    for number, (_, key, time) in enumerate(orders):
        if grace is None or time < reached - grace:
            out.append((number, key, time))
            continue
        reached = max(reached, time)
        waiting = sorted([*waiting, (time, key, number)])
        out += [(n, k, t) for t, k, n in waiting if t <= reached - grace]
        waiting = [one for one in waiting if one[0] > reached - grace]
    rows: list[tuple[str, list[object], int]] = []
    for number, key, time in out:
        versions = known.get(key, {})
        at = max((one for one in versions if one <= time), default=None)
        if at is not None and time < now - 100 and at != max(versions):
            at = None
        rows.append((key, [number, None if at is None else [versions[at]]], time))
    return rows


class Ledger(Processor):
    def process(self, record: Record) -> None:
        rows = self.context.get_state_store("ledger")
        rows.put(record.key, record.value, record.timestamp)
        before = rows.get_as_of(record.key, record.timestamp - 10)
        self.context.forward(record.with_value([record.value, before and before.value]))


def test_a_versioned_store_in_a_users_processor() -> None:
    builder = StreamsBuilder("ledger")
    store = versioned_store("ledger", key=str, value=int, history="1m")
    builder.stream("in", key=str, value=int).process(Ledger, stores=[store], value=list).to("out")
    driver = Driver(builder.build())
    for time, value in ((0, 1), (10, 2), (20, 3), (15, 4)):
        driver.send("in", value, key="k", timestamp=time)
    driver.restart()
    assert [value for _, value in driver.read("out")] == [[1, None], [2, 1], [3, 2], [4, 1]]
    rows = driver.store("ledger")
    assert rows.get("k") == Version(3, 20, None)
    assert rows.range("k", descending=True)[0].timestamp == 20
    assert rows.delete("k", 12) == Version(2, 10, 15)
    assert [one.value for one in rows.range("k", 0, 14)] == [1, 2]


def test_late_updates_are_dropped_and_counted() -> None:
    driver = Driver(joined())
    driver.send("prices", [1], key="tea", timestamp=200)
    driver.send("prices", [1], key="tea", timestamp=99)
    assert driver.dropped() == {"older than the history": 1}


def test_the_history_cannot_be_negative() -> None:
    with pytest.raises(StoreError, match="history of -1 ms"):
        versioned_store("ledger", history=-1)
