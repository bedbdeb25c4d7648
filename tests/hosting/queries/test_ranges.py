"""The rows of ranges of keys and times, for any times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamtopo import StreamsBuilder, Windowed, Windows, host
from streamtopo.hosting.app import App
from streamtopo.hosting.queries.scanning import ScanBounds, StoreTimes, rows_in
from streamtopo.logs import Log
from streamtopo.stores import StoreSpec
from streamtopo.stores.backends.memory import MemoryStore
from streamtopo.stores.build import session_store, window_store
from streamtopo.stores.rows.extent import Extent
from streamtopo.stores.rows.layout import placed, prefix_of
from tests.hosting.conftest import PATIENCE, send

NOW = 1_790_000_000_000
LAST = (1 << 63) - 1
SPECS = [
    window_store("rows", window_size="10s", retention="2m", key=str, value=str),
    session_store("rows", retention="5m", key=str, value=str),
]
near = st.integers(-400_000, 400_000)
times = st.one_of(
    st.integers(0, 400_000), near.map(lambda off: NOW + off), st.integers(LAST - 400_000, LAST - 20_000), st.just(0)
)
bounds = st.one_of(times, st.just(-1), st.just(LAST))
keys = st.sampled_from(["", "a", "ab", "b", "\x00", "\uffff"])


class Counting(MemoryStore):
    scans = 0

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        self.scans += 1
        return super().scan(start, stop, reverse=reverse)


@given(
    spec=st.sampled_from(SPECS),
    rows=st.sets(st.tuples(keys, times), max_size=20),
    key=st.one_of(st.none(), keys),
    start=bounds,
    stop=bounds,
    committed=st.one_of(st.just(-1), times),
    ahead=st.one_of(st.just(0), times),
    reverse=st.booleans(),
)
def test_rows_are_those_of_a_model_and_empty_segments_are_not_read(
    spec: StoreSpec,
    rows: set[tuple[str, int]],
    key: str | None,
    start: int,
    stop: int,
    committed: int,
    ahead: int,
    reverse: bool,
) -> None:
    encoded = {spec.key.encode(Windowed(name, time, time)): time for name, time in rows}
    store, places = Counting(), placed(spec, list(encoded), prefix_of("rows"))
    store.write(dict.fromkeys(places, b"x"), {})
    inner = None if key is None else key.encode()
    reached = max(committed, ahead)
    span = ScanBounds(reverse=reverse, extent=Extent(inner, inner, start, stop))
    found = [key for key, _ in rows_in(store, spec, span, StoreTimes(committed, reached))]

    oldest = max(start, committed - spec.retention + 1, 0)
    expected = {
        encoding
        for encoding, time in encoded.items()
        if oldest <= time <= min(stop, reached + 1) and (inner is None or encoding[: -spec.key.window_bytes] == inner)
    }
    assert found == sorted(found, reverse=reverse)
    assert {one[8:] for one in found} == expected
    assert store.scans <= 2 * len({one[:13] for one in places}) + 1


def test_a_window_store_can_be_queried_before_the_first_commit(url: str, log: Log, options: dict[str, Any]) -> None:
    asked: list[Any] = []
    apps: list[App] = []

    def look(value: str) -> str:
        if apps and value == "look":
            windows = apps[0].query("windows")
            asked.append((windows.window("a"), list(windows.all()), list(windows.range(0, LAST, reverse=True))))
        return value

    builder = StreamsBuilder("early")
    grouped = builder.stream("in", key=str, value=str, timestamp=lambda *_: NOW).map_values(look).group_by_key()
    grouped.windowed_by(Windows.tumbling("10s")).count(name="windows")
    with host(builder, url, **options, chunk=1, commit_interval="1h") as app:
        app.ready(PATIENCE)
        apps.append(app)
        app.pause()
        send(log, "a", "a")
        send(log, "a", value="look")
        app.resume()
        app.produce("in", "x", key="b").result(60)
        while not app.query("windows", wait=PATIENCE).window("b"):
            pass
    assert asked == [([], [], [])]
