"""Queries of windows, sessions and versions anywhere: the answers are those of the stores in a Driver."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from streamtopo import StreamsBuilder, Windowed, Windows, host
from streamtopo.cli import main
from streamtopo.errors import SerdeError
from streamtopo.hosting.answers import NotOwner, QueryError, UnknownStore
from streamtopo.hosting.app import App, AsyncApp
from streamtopo.hosting.queries.query import Query
from streamtopo.stores.rows.versions import Version
from streamtopo.testing import Driver
from streamtopo.web import application
from tests.hosting.conftest import PATIENCE
from tests.hosting.queries import timed

APP = "tests.hosting.queries.timed"
WINDOWS = ["seconds", "minutes", "sliding", "ever"]
SPANS = [(None, None), (0, 100_000), (298_000, 302_000), (1_790_000, None), (timed.END, timed.END), (-5, -1)]
TIMES = [-1, 0, 60_000, 1_139_999, 1_140_000, 1_500_000, timed.END, None]


@pytest.fixture(scope="module")
def driver() -> Driver:
    return timed.expected()


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which everything is processed, and its stores: many tests read them, none changes them."""
    return timed.process_all(tmp_path_factory.mktemp("timed"))


@pytest.fixture
def app(full: Path) -> Iterator[App]:
    with host(timed.topology, f"embedded:{full / 'log'}", state_dir=str(full / "state")) as one:
        one.ready(PATIENCE)
        yield one


def windows(driver: Driver, store: str, key: str, start: int | None, stop: int | None) -> list[Any]:
    bounds = 0 if start is None else start, timed.END * 2 if stop is None else stop
    return list(driver.store(store).fetch_range(key, *bounds))


def check(driver: Driver, query: Callable[[str], Query]) -> None:
    for store in WINDOWS:
        for key in timed.KEYS:
            for span in SPANS:
                found = query(store).window(key, *span)
                assert [(window.start, count) for window, count in found] == windows(driver, store, key, *span)
                assert {window.key for window, _ in found} <= {key}
    for key in timed.KEYS:
        assert query("sessions").session(key) == list(driver.store("sessions").fetch(key))
        for start, stop in [(0, 100_000), (1_000_000, 1_000_005), (1_795_000, timed.END * 2)]:
            assert query("sessions").session(key, start, stop) == list(
                driver.store("sessions").find_sessions(key, start, stop)
            )
    for store in [*WINDOWS, "sessions"]:
        everything = sorted(driver.store(store).all())
        assert sorted(query(store).all()) == everything
        assert query(store).count() == len(everything)
    prices = driver.store("prices")
    for key in timed.PRICES:
        assert query("prices").get(key) == prices.get(key).value
        for time in TIMES:
            encoded = prices.get(key) if time is None else prices.get_as_of(key, time)
            assert query("prices").versioned(key, time) == encoded


def test_the_answers_are_those_of_a_driver(driver: Driver, app: App) -> None:
    assert len(windows(driver, "seconds", "a", None, None)) == 1500
    assert (windows(driver, "seconds", "c", None, None), windows(driver, "ever", "c", None, None)) == ([], [(0, 100)])
    check(driver, lambda store: app.query(store, wait=PATIENCE))


def test_they_are_the_same_after_a_restore(driver: Driver, full: Path, tmp_path: Path) -> None:
    with host(timed.topology, f"embedded:{full / 'log'}", state_dir=str(tmp_path)) as app:
        app.ready(PATIENCE)
        check(driver, lambda store: app.query(store, wait=PATIENCE))


def test_they_are_the_same_from_another_process(driver: Driver, full: Path) -> None:
    options: dict[str, Any] = {"engine": "process", "processes": 2, "state_dir": str(full / "state")}
    with host(APP, f"embedded:{full / 'log'}", **options) as app:
        app.ready(PATIENCE)
        check(driver, lambda store: app.query(store, wait=PATIENCE))


async def test_they_are_the_same_on_a_loop(driver: Driver, full: Path) -> None:
    async with host(timed.topology, f"embedded:{full / 'log'}", state_dir=str(full / "state")) as app:
        await app.ready(PATIENCE)
        found = await app.query_async("seconds", wait=PATIENCE).window("b", 1_000_000)
        assert [(window.start, count) for window, count in found] == windows(driver, "seconds", "b", 1_000_000, None)
        sessions = list(driver.store("sessions").fetch("dd"))
        assert await app.query_async("sessions").session("dd") == sessions
        price = driver.store("prices").get_as_of(timed.PRICES[0], 1_500_000)
        assert await app.query_async("prices").versioned(timed.PRICES[0], 1_500_000) == price
        assert sorted([pair async for pair in app.query_async("ever").all()]) == sorted(driver.store("ever").all())


def test_rows_are_ordered_by_segments_of_time_and_can_be_reversed(app: App) -> None:
    minutes = app.query("minutes")
    rows = list(minutes.range(1_760_000, 1_780_000))
    assert {window.start for window, _ in rows} == {1_760_000, 1_780_000}
    assert list(minutes.range(1_760_000, 1_780_000, reverse=True)) == rows[::-1]


def test_answers_are_typed_and_invalid_queries_are_explained(app: App) -> None:
    (last,) = app.query("seconds").window("d")
    assert last == (Windowed("d", timed.END, timed.END + 1000), 1)
    assert app.query("prices").versioned(timed.PRICES[3]) == Version(1, 1000, None)
    assert app.query("seconds").window("nobody") == app.query("sessions").session("nobody") == []
    assert app.query("prices").versioned("nobody") is None
    with pytest.raises(QueryError, match=r'"seconds" is a timestamped window store and has no get; use window\(key\)'):
        app.query("seconds").get("a")
    with pytest.raises(QueryError, match=r"has no prefix; use session\(key\)"):
        app.query("sessions").prefix("a")
    with pytest.raises(QueryError, match=r"is a versioned store and has no window; use get\(key\)"):
        app.query("prices").window("a")
    with pytest.raises(QueryError, match="'now' is not a time; give milliseconds"):
        app.query("seconds").window("a", "now")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="null key"):
        app.query("seconds").window(None)
    with pytest.raises(SerdeError):
        app.query("seconds").window(7)
    with pytest.raises(UnknownStore, match="there is no store"):
        app.query("hours")
    app.close()
    for ask in (
        lambda: app.query("seconds").window("a"),
        lambda: app.query("sessions").session("a"),
        lambda: app.query("prices").versioned("a", 5),
    ):
        with pytest.raises(NotOwner):
            ask()


def test_an_answer_is_a_snapshot_while_the_engine_runs(url: str, tmp_path: Path) -> None:
    """Every record is in two windows, perhaps in two segments: an odd sum would be one without the other."""
    builder = StreamsBuilder("moments")
    windows = (
        builder.stream("in", key=str, value=str).group_by_key().windowed_by(Windows.hopping(120_000, every=60_000))
    )
    windows.count(name="counts", retention="1d")
    sums = [0]
    with host(builder, url, create_topics=1, state_dir=str(tmp_path / "state"), commit_interval=5, chunk=10) as app:
        app.ready(PATIENCE)
        counts = app.query("counts", wait=PATIENCE)
        for number in range(2000):
            app.produce("in", "x", key="a", timestamp=120_000 + number * 7_000)
        while sums[-1] < 4000:
            found = counts.window("a")
            assert [window.start for window, _ in found] == [60_000 * (n + 1) for n in range(len(found))]
            sums.append(sum(count for _, count in found))
    assert sums == sorted(sums)
    assert [total % 2 for total in sums] == [0] * len(sums)


@pytest.fixture
async def client(full: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with host(timed.topology, f"embedded:{full / 'log'}", state_dir=str(full / "state")) as app:
        await app.ready(PATIENCE)
        assert isinstance(app, AsyncApp)
        transport = httpx.ASGITransport(application(app))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as one:
            yield one


async def test_over_http(client: httpx.AsyncClient) -> None:
    async def get(path: str) -> Any:
        answer = await client.get(path)
        return answer.json() if answer.status_code == 200 else (answer.status_code, answer.json()["error"])

    row = {"key": "d", "start": timed.END, "end": timed.END + 1000, "value": 1}
    assert await get("/stores/seconds/d") == {"rows": [row], "more": False}
    assert await get("/stores/seconds/a?to=200000") == {"rows": [], "more": False, "kept_from": 299_001}
    assert await get("/stores/ever/nobody") == {"rows": [], "more": False, "kept_from": 0}
    some = await get("/stores/seconds/a?from=1000000&to=1005000&limit=2")
    assert ([row["start"] for row in some["rows"]], some["more"]) == ([1_000_000, 1_001_000], True)
    some = await get("/stores/seconds/a?from=1000000&to=1005000&reverse=true&limit=1")
    assert ([row["start"] for row in some["rows"]], some["more"]) == ([1_005_000], True)
    assert (await get("/stores/sessions/d"))["rows"] == [row | {"end": timed.END}]
    assert row in (await get(f"/stores/seconds?from={timed.END}"))["rows"]
    assert await get(f"/stores/prices/{timed.PRICES[3]}?as_of=5000") == {
        "key": timed.PRICES[3],
        "value": 1,
        "timestamp": 1000,
        "valid_to": None,
    }
    assert {row["key"] for row in (await get("/stores/prices?prefix=price"))["rows"]} == set(timed.PRICES)
    assert await get(f"/stores/prices/{timed.PRICES[3]}?as_of=0") == (404, "no such key")
    assert await get("/stores/seconds/a?from=noon") == (
        422,
        "'noon' is not a time; give one in UTC, such as 2026-01-31T12:00:00Z, or milliseconds since 1970",
    )
    assert (await get("/stores/seconds?prefix=a"))[0] == 422
    assert (
        (await get("/stores/seconds?from=" + "9" * 5000))[0]
        == (await get("/stores/ever?limit=" + "9" * 5000))[0]
        == 422
    )
    assert (await get(f"/stores/prices/{timed.PRICES[3]}?as_of=-1"))[0] == 422


def test_on_the_command_line_from_the_disk(driver: Driver, full: Path) -> None:
    def asked(*arguments: str) -> Any:
        where = ["--log", f"embedded:{full / 'log'}", "--state-dir", str(full / "state")]
        result = CliRunner().invoke(main, ["query", APP, *arguments, *where])
        return result.stdout if result.exit_code == 0 else (result.exit_code, result.stderr)

    rows = [json.loads(line) for line in asked("seconds", "a", "--json").splitlines()]
    assert [(row["start"], row["value"]) for row in rows] == windows(driver, "seconds", "a", None, None)
    assert asked("sessions", "d") == "d\t1970-01-01T00:30:00Z\t1970-01-01T00:30:00Z\t1\n"
    assert asked("prices", timed.PRICES[3], "--as-of", "1000") == f"{timed.PRICES[3]}\t1\t1970-01-01T00:00:01Z\t-\n"
    assert asked("seconds", "a", "--from", "1000000", "--to", "1001000", "--reverse", "--max", "1").startswith(
        "a\t1970-01-01T00:16:41Z"
    )
    assert len(asked("minutes").splitlines()) == len(list(driver.store("minutes").all()))
    kept = "it keeps windows for 25 min: those that started before 1970-01-01T00:04:59.001Z are gone"
    assert asked("seconds", "a", "--to", "200000") == (1, f'store "seconds" has no key "a" at this time; {kept}\n')
    assert asked("ever", "nobody") == (1, 'store "ever" has no key "nobody"\n')
    assert asked("seconds", "--from", "noon")[0] == 1
    assert asked("seconds", "--as-of", "5")[0] == asked("seconds", "a", "--prefix", "a")[0] == 2
