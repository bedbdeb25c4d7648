"""Run one case through the Driver, and report where its outputs differ from those of Kafka Streams."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from streamtopo.settings.on_error import Fail, Skip
from streamtopo.testing import Driver, DriverRecord
from tests.conformance.shapes import shape
from tests.conformance.store_ops import plain, store_op
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
    """A case's topology on one partition, without the record cache, as all cases assume."""

    def __init__(self, case: Case, *, chunk: int = 10_000) -> None:
        self.built = build(case["params"])
        wall_clock = case["params"].get("initial_wall_clock_ms", 0)
        self.driver = Driver(self.built.topology, wall_clock_ms=wall_clock, cache=0, chunk=chunk)
        self.topics = self.built.captured | {row["topic"] for row in case["expected"]} - self.built.peeked

    def feed(self, entry: Entry) -> list[Row]:
        """Process one input that is not a store operation, and return the new output rows."""
        sent = [] if "advance_wall_clock_ms" in entry else entry.get("batch", [entry])
        if sent:
            self.driver.send_all(DriverRecord(one["topic"], one["key"], one["value"], one["ts"]) for one in sent)
        else:
            self.driver.advance(wall_clock_ms=entry["advance_wall_clock_ms"])
        return list(self._outputs(Counter(one["topic"] for one in sent)))

    def _outputs(self, sent: Counter[str]) -> Iterator[Row]:
        """Yield the unread rows. A topic that is both written and read begins with the records just sent."""
        for topic in sorted(self.topics):
            for record in self.driver.records(topic)[sent[topic] :]:
                yield Row(topic, plain(_decoded(record.key)), plain(_decoded(record.value)), record.timestamp)
        for topic, key, value in self.built.seen:
            yield Row(topic, plain(key), plain(value), None)
        self.built.seen.clear()

    def store_op(self, entry: Entry) -> Any:
        return store_op(self.driver, entry)

    def pass_over(self) -> None:
        """Continue after the record that failed, as Kafka Streams' test driver does."""
        for policy in (Skip(), Fail()):
            self.driver._config = replace(self.driver._config, on_error=policy)
            self.driver.restart()
        list(self._outputs(Counter()))


def _decoded(data: Any) -> Any:
    """Decode data of a topic that only a dynamic sink writes: the Driver has no types for it."""
    return ANY.decode(data) if isinstance(data, bytes) else data


# -- comparing


def differences(case: Case) -> list[str]:
    """Return where the case as given, input by input, had different results; empty if it agrees."""
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
        return _line_differences([text_of(entry["expect"])], [text_of(run.store_op(entry))], "result")
    if "expect_error" in entry:
        return _differences_in_error(run, entry)
    return row_differences(rows_of(expected), run.feed(entry), ordered=case["order"] == "strict")


def _differences_in_error(run: Run, entry: Entry) -> list[str]:
    try:
        run.feed(entry)
    except Exception as error:
        text, wanted = _message(error), entry["expect_error"]
        run.pass_over()
        agree = wanted in text or any(theirs in wanted and ours in text for theirs, ours in _SAME_ERRORS.items())
        return [] if agree else _line_differences([wanted], [text], "error")
    return _line_differences([entry["expect_error"]], ["no error"], "error")


_SAME_ERRORS = {
    "buffer exceeded its max capacity": "buffer exceeded its max capacity",
    "returned null": "the function returned None",
    "may not be negative": "it must be 0 or more",
    "Unknown downstream node": "is not a child of",
}
"""Texts of errors in Kafka Streams, and of the same errors in streamtopo."""


def _message(error: BaseException | None) -> str:
    return f"{error}\n{_message(error.__cause__)}" if error is not None else ""


def _differences_in_shape(case: Case) -> list[str]:
    got = build(case["params"]).topology.describe()
    named = set(_named(case["params"].get("steps") or case["params"]["nodes"]))
    if shape(case["expected_describe"], named) == shape(got, named):
        return []
    return _line_differences(case["expected_describe"].splitlines(), got.splitlines(), "description")


def _named(steps: list[Entry]) -> Iterator[str]:
    """Yield the topics and stores that the case itself names."""
    for step in steps:
        yield from step.get("topics", [])
        store = step.get("store")
        named = step.get("topic"), store["name"] if isinstance(store, dict) else store
        yield from filter(None, named)


def rows_of(expected: Iterable[Entry]) -> list[Row]:
    return [Row(row["topic"], row["key"], row["value"], row["ts"]) for row in expected]


def row_differences(expected: list[Row], got: list[Row], *, ordered: bool) -> list[str]:
    """Compare topic by topic, since the order between topics is not significant."""
    found = []
    for topic in sorted({row.topic for row in [*expected, *got]}):
        wanted = [row for row in expected if row.topic == topic]
        timed = all(row.ts is not None for row in wanted)
        lines = _lines(wanted, timed, ordered), _lines([row for row in got if row.topic == topic], timed, ordered)
        found += _line_differences(*lines, f"topic {topic} [key, value, ts]")
    return found


def _lines(rows: list[Row], timed: bool, ordered: bool) -> list[str]:
    """Return rows as text, in which 1, 1.0 and true differ; without times if these cannot be observed."""
    lines = [text_of([row.key, row.value, row.ts if timed else None]) for row in rows]
    return lines if ordered else sorted(lines)


def _line_differences(expected: list[str], got: list[str], what: str) -> list[str]:
    if expected == got:
        return []
    lines = [f"{what}, expected:", *(expected or ["nothing"]), f"{what}, got:", *(got or ["nothing"])]
    return ["\n".join(line if line.startswith(what) else f"  {line}" for line in lines)]


def text_of(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
