"""Steps with windows: windowed_by, and the aggregations after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo import CogroupedKStream, KTable, Windows, until_time_limit, until_window_closes
from tests.conformance.functions import function

Step = dict[str, Any]

_WINDOWS: dict[str, Callable[[Step], Any]] = {
    "tumbling": lambda window: Windows.tumbling(window["size_ms"], grace=window["grace_ms"]),
    "hopping": lambda window: Windows.hopping(window["size_ms"], every=window["advance_ms"], grace=window["grace_ms"]),
    "sliding": lambda window: Windows.sliding(window["time_difference_ms"], grace=window["grace_ms"]),
    "session": lambda window: Windows.session(window["gap_ms"], grace=window["grace_ms"]),
    "unlimited": lambda window: Windows.unlimited(window["start_ms"]),
}
_FULL = {"emit_early": "emit_early", "shutdown": "shut_down"}
_EMITS = {"on_window_update": "on_update", "on_window_close": "on_close"}


def windowed_by(_: Any, grouped: Any, step: Step) -> Any:
    window = step["window"]
    emit = {"emit": _EMITS[step["emit"]]} if "emit" in step else {}
    return grouped.windowed_by(_WINDOWS[window["type"]](window), **emit)


def cogroup(steps: Any, grouped: Any, step: Step) -> CogroupedKStream:
    add = function(step["fn"])
    if "grouped" in step:
        return grouped.cogroup(steps.results[step["grouped"]], lambda key, value, row: add(row, value))  # type: ignore[no-any-return]
    return grouped.cogroup(lambda key, value, row: add(row, value))  # type: ignore[no-any-return]


def suppress(_: Any, table: KTable, step: Step) -> KTable:
    if step["until"] == "window_closes":
        return table.suppress(until_window_closes(max_records=step.get("max_records")))
    when_full = _FULL[step.get("on_full", "emit_early")]
    return table.suppress(until_time_limit(step["time_ms"], max_records=step.get("max_records"), when_full=when_full))


def kept(step: Step) -> dict[str, Any]:
    """Return the keyword arguments of an aggregation: its store and, with windows, its retention."""
    return {"name": step.get("store")} | ({"retention": step["retention_ms"]} if "retention_ms" in step else {})
