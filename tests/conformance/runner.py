"""Runs one case through the Driver, and says where the outputs differ from what Kafka Streams gave."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from streamtopo.stores import Kind
from streamtopo.stores.versions import Version
from streamtopo.testing import Driver, DriverRecord, DriverStore, DriverVersionedStore
from tests.conformance.shapes import shape
from tests.conformance.topologies import build
from tests.conformance.values import ANY

Case = dict[str, Any]
Entry = dict[str, Any]


class Row(NamedTuple):
    topic: str
    key: Any
    value: Any
    ts: int | None


class Run:
    """A case's topology on one partition with the cache off, as all cases assume."""

    def __init__(self, case: Case, *, chunk: int = 10_000) -> None:
        self.built = build(case["params"])
        wall_clock = case["params"].get("initial_wall_clock_ms", 0)
        self.driver = Driver(self.built.topology, wall_clock_ms=wall_clock, cache=0, chunk=chunk)
        self.topics = self.built.captured | {row["topic"] for row in case["expected"]} - self.built.peeked

    def feed(self, entry: Entry) -> list[Row]:
        """Do what one input says that is no store operation; returns what came out."""
        sent = [] if "advance_wall_clock_ms" in entry else entry.get("batch", [entry])
        if sent:
            self.driver.send_all(DriverRecord(one["topic"], one["key"], one["value"], one["ts"]) for one in sent)
        else:
            self.driver.advance(wall_clock_ms=entry["advance_wall_clock_ms"])
        return list(self._outputs(Counter(one["topic"] for one in sent)))

    def _outputs(self, sent: Counter[str]) -> Iterator[Row]:
        """What was not read yet. A topic that is written and read begins with the records that were just sent."""
        for topic in sorted(self.topics):
            for record in self.driver.records(topic)[sent[topic] :]:
                yield Row(topic, _decoded(record.key), _decoded(record.value), record.timestamp)
        for topic, key, value in self.built.seen:
            yield Row(topic, key, value, None)
        self.built.seen.clear()

    def store_op(self, entry: Entry) -> Any:
        kind = self.driver.topology.stores[entry["store"]].kind
        if kind is Kind.VERSIONED:
            return _VERSIONED[entry["store_op"]](self.driver.versioned_store(entry["store"]), entry)
        store = self.driver.store(entry["store"])
        if entry["store_op"] in _CHANGES:
            return _CHANGES[entry["store_op"]](store, entry)
        value_of = store.get if kind is Kind.KEY_VALUE else _with_timestamp(store)
        if entry["store_op"] == "get":
            return value_of(entry["key"])
        if entry["store_op"] == "approximate_num_entries":
            return store.approximate_num_entries()
        return [[key, value_of(key)] for key, _ in _SCANS[entry["store_op"]](store, entry)]


def _decoded(data: Any) -> Any:
    """The Driver knows no types for a topic that only a dynamic sink writes."""
    return ANY.decode(data) if isinstance(data, bytes) else data


# -- stores


def _with_timestamp(store: DriverStore) -> Callable[[Any], dict[str, Any] | None]:
    def get(key: Any) -> dict[str, Any] | None:
        row = store.get_with_timestamp(key)
        return None if row is None else {"value": row.value, "ts": row.timestamp}

    return get


def _put(store: DriverStore, entry: Entry) -> None:
    store.put(entry["key"], entry["value"])


def _put_all(store: DriverStore, entry: Entry) -> None:
    for key, value in entry["entries"]:
        store.put(key, value)


def _put_if_absent(store: DriverStore, entry: Entry) -> Any:
    before = store.get(entry["key"])
    if before is None:
        store.put(entry["key"], entry["value"])
    return before


def _version(version: Version | None) -> dict[str, Any] | None:
    return version and {"value": version.value, "ts": version.timestamp, "valid_to": version.valid_to}


def _versions(store: DriverVersionedStore, entry: Entry) -> list[dict[str, Any] | None]:
    descending = entry.get("order") == "descending"
    return [_version(one) for one in store.range(entry["key"], entry["from"], entry["to"], descending=descending)]


_VERSIONED: dict[str, Callable[[DriverVersionedStore, Entry], Any]] = {
    "put": lambda store, entry: store.put(entry["key"], entry["value"], entry["ts"]),
    "delete": lambda store, entry: _version(store.delete(entry["key"], entry["ts"])),
    "get": lambda store, entry: _version(store.get(entry["key"])),
    "get_as_of": lambda store, entry: _version(store.get_as_of(entry["key"], entry["as_of"])),
    "get_range": _versions,
}
_CHANGES: dict[str, Callable[[DriverStore, Entry], Any]] = {
    "put": _put,
    "put_all": _put_all,
    "put_if_absent": _put_if_absent,
    "delete": lambda store, entry: store.delete(entry["key"]),
}
_SCANS: dict[str, Callable[[DriverStore, Entry], Iterable[tuple[Any, Any]]]] = {
    "all": lambda store, _: store.all(),
    "reverse_all": lambda store, _: store.reverse_all(),
    "range": lambda store, entry: store.range(entry["key_from"], entry["key_to"]),
    "reverse_range": lambda store, entry: store.reverse_range(entry["key_from"], entry["key_to"]),
}


# -- judging


def differences(case: Case) -> list[str]:
    """Where the case as given, input by input, came out differently; empty if it agrees."""
    if case["params"].get("describe"):
        return _differences_in_shape(case)
    run = Run(case)
    found = []
    for number, (entry, expected) in enumerate(zip(case["inputs"], case["expected_after_each"], strict=True)):
        where = f"input {number}: {text_of(entry)}"
        found += [f"{where}\n{difference}" for difference in _differences_at(run, case, entry, expected)]
    return found


def _differences_at(run: Run, case: Case, entry: Entry, expected: list[Entry]) -> list[str]:
    if "store_op" in entry:
        return _unlike([text_of(entry["expect"])], [text_of(run.store_op(entry))], "result")
    if "expect_error" in entry:
        return _differences_in_error(run, entry)
    return unlike(rows_of(expected), run.feed(entry), ordered=case["order"] == "strict")


def _differences_in_error(run: Run, entry: Entry) -> list[str]:
    try:
        run.feed(entry)
    except Exception as error:
        told = _told(error)
        return [] if entry["expect_error"] in told else _unlike([entry["expect_error"]], [told], "error")
    return _unlike([entry["expect_error"]], ["no error"], "error")


def _told(error: BaseException | None) -> str:
    return f"{error}\n{_told(error.__cause__)}" if error is not None else ""


def _differences_in_shape(case: Case) -> list[str]:
    got = build(case["params"]).topology.describe()
    named = set(_named(case["params"]["steps"]))
    if shape(case["expected_describe"], named) == shape(got, named):
        return []
    return _unlike(case["expected_describe"].splitlines(), got.splitlines(), "description")


def _named(steps: list[Entry]) -> Iterator[str]:
    """Topics and stores that the case itself names."""
    for step in steps:
        yield from step.get("topics", [])
        yield from (step[field] for field in ("topic", "store") if step.get(field))


def rows_of(expected: Iterable[Entry]) -> list[Row]:
    return [Row(row["topic"], row["key"], row["value"], row["ts"]) for row in expected]


def unlike(expected: list[Row], got: list[Row], *, ordered: bool) -> list[str]:
    """Topic by topic, since the order between topics is not significant."""
    found = []
    for topic in sorted({row.topic for row in [*expected, *got]}):
        wanted = [row for row in expected if row.topic == topic]
        timed = all(row.ts is not None for row in wanted)
        lines = _lines(wanted, timed, ordered), _lines([row for row in got if row.topic == topic], timed, ordered)
        found += _unlike(*lines, f"topic {topic} [key, value, ts]")
    return found


def _lines(rows: list[Row], timed: bool, ordered: bool) -> list[str]:
    """Rows as text, in which 1 and 1.0 and true differ; without times where those cannot be observed."""
    lines = [text_of([row.key, row.value, row.ts if timed else None]) for row in rows]
    return lines if ordered else sorted(lines)


def _unlike(expected: list[str], got: list[str], what: str) -> list[str]:
    if expected == got:
        return []
    lines = [f"{what}, expected:", *(expected or ["nothing"]), f"{what}, got:", *(got or ["nothing"])]
    return ["\n".join(line if line.startswith(what) else f"  {line}" for line in lines)]


def text_of(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
