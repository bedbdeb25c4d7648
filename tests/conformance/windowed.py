"""Steps with windows: windowed_by, and the aggregations behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo import Windows

Step = dict[str, Any]

_WINDOWS: dict[str, Callable[[Step], Any]] = {
    "tumbling": lambda window: Windows.tumbling(window["size_ms"], grace=window["grace_ms"]),
    "hopping": lambda window: Windows.hopping(window["size_ms"], every=window["advance_ms"], grace=window["grace_ms"]),
    "sliding": lambda window: Windows.sliding(window["time_difference_ms"], grace=window["grace_ms"]),
    "session": lambda window: Windows.session(window["gap_ms"], grace=window["grace_ms"]),
    "unlimited": lambda window: Windows.unlimited(window["start_ms"]),
}
_EMITS = {"on_window_update": "on_update", "on_window_close": "on_close"}


def windowed_by(_: Any, grouped: Any, step: Step) -> Any:
    window = step["window"]
    emit = _EMITS[step.get("emit", "on_window_update")]
    return grouped.windowed_by(_WINDOWS[window["type"]](window), emit=emit)


def kept(step: Step) -> dict[str, Any]:
    """The keywords of an aggregation: its store, and in windows for how long it keeps rows."""
    return {"name": step.get("store")} | ({"retention": step["retention_ms"]} if "retention_ms" in step else {})
