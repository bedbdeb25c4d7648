"""Random queries of every kind of store while tasks move, close, and are restored: the answers never change."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from streamtopo import host
from streamtopo.hosting.app import App
from streamtopo.stores import Kind
from tests.hosting.conftest import PATIENCE, until
from tests.hosting.queries import timed

STORES = ["seconds", "minutes", "sliding", "ever", "sessions", "prices", "totals"]
TIMES = [None, -1, 0, 1000, 298_000, 302_000, 1_139_999, 1_140_000, timed.END, (1 << 63) - 1]
KEYS = [None, "", *timed.KEYS, *timed.PRICES, "zz"]
MOVES = 6


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return timed.process_all(tmp_path_factory.mktemp("moving"))


class Model:
    """All rows of each store, read while nothing moves."""

    def __init__(self, app: App) -> None:
        self.rows = {store: list(app.query(store, wait=PATIENCE).all()) for store in STORES}
        self.kinds = {store: app.query(store).spec.kind for store in STORES}

    def bounds(self, store: str, chance: random.Random) -> tuple[Any, Any]:
        choices = KEYS if store in ("prices", "totals") else TIMES
        return chance.choice(choices), chance.choice(choices)

    def inside(self, store: str, start: Any, stop: Any) -> list[Any]:
        at: Callable[[Any], Any] = lambda key: key  # noqa: E731
        if self.kinds[store] is Kind.SESSION:
            at = lambda key: key.end  # noqa: E731
        elif store not in ("prices", "totals"):
            at = lambda key: key.start  # noqa: E731
        rows = self.rows[store]
        return [row for row in rows if (start is None or start <= at(row[0])) and (stop is None or at(row[0]) <= stop)]

    def of_key(self, store: str, key: str) -> list[Any]:
        return sorted(row for row in self.rows[store] if row[0].key == key)


def ask(app: App, model: Model, chance: random.Random) -> None:
    store = chance.choice(STORES)
    query = app.query(store, wait=PATIENCE)
    if chance.random() < 0.5:
        bounds, reverse, most = model.bounds(store, chance), chance.random() < 0.5, chance.choice([1, 7, 1500, 100_000])
        found = list(islice(query.range(*bounds, reverse=reverse), most))
        expected = model.inside(store, *bounds)
        assert found == (expected[::-1] if reverse else expected)[:most], (store, bounds, reverse, most)
    elif store in ("prices", "totals"):
        key = chance.choice(KEYS[1:])
        assert query.get(key) == dict(model.rows[store]).get(key), (store, key)
    else:
        key = chance.choice(timed.KEYS)
        found = query.session(key) if model.kinds[store] is Kind.SESSION else query.window(key)
        assert found == model.of_key(store, key), (store, key)


def go_on_asking(app: App, model: Model, seed: str, done: threading.Event) -> None:
    chance = random.Random(seed)
    while not done.is_set():
        ask(app, model, chance)


@pytest.mark.parametrize("seed", [1, 2])
def test_answers_are_the_same_wherever_the_tasks_are(full: Path, tmp_path: Path, seed: int) -> None:
    url, state, chance, done = f"embedded:{full / 'log'}", str(full / "state"), random.Random(seed), threading.Event()

    def move(number: int) -> None:
        """Move tasks to other threads, or to another app and back, which may have to restore the stores."""
        if chance.random() < 0.4:
            app.scale(chance.choice([1, 2, 3]))
            app.ready(PATIENCE)
            return
        folder = str(tmp_path / f"state{number}") if chance.random() < 0.5 else state
        with host(timed.topology, url, state_dir=folder, chunk=chance.choice([10, 2000])) as other:
            until(lambda: (metrics := other.metrics()) and metrics.tasks)
            ask(app, model, chance)
            ask(other, model, chance)

    with host(timed.topology, url, state_dir=state) as app, ThreadPoolExecutor(2) as pool:
        app.ready(PATIENCE)
        model = Model(app)
        asking = [pool.submit(go_on_asking, app, model, f"{seed} {number}", done) for number in range(2)]
        try:
            for number in range(MOVES):
                step = -1 if number % 2 else 1
                begun = {store: app.query(store, wait=PATIENCE).range(reverse=step < 0) for store in STORES}
                first = {store: next(rows) for store, rows in begun.items()}
                move(number)
                for store, rows in begun.items():
                    assert [first[store], *rows] == model.rows[store][::step], store
        finally:
            done.set()
        for one in asking:
            one.result()
