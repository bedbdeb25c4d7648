"""The rates as bars, in SVG: one chart for each workload, with its own scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.peers.contenders import contenders
from benchmarks.peers.tables import Kept, medians, rate, short
from benchmarks.peers.workloads import WORKLOADS

_NAMES, _BARS, _LINE, _WIDTH = 290, 380, 18, 760
_COLOURS = {"streamtopo": "#1f77b4", "client alone": "#999999"}
_OTHER = "#d9915b"

Bar = tuple[str, float, str]
"""Name of the contender, length, and the text at its end."""


def chart(kept: Sequence[Kept]) -> str:
    drawn, top = [], 10
    for workload, bars in _bars(kept).items():
        drawn.append(_text(10, top + 14, f"{workload}: {_unit(workload)}", "font-weight='bold'"))
        longest = max(length for _, length, _ in bars)
        for place, (name, length, text) in enumerate(bars, 1):
            drawn.append(_bar(name, length / longest, text, top + place * _LINE))
        top += (len(bars) + 2) * _LINE
    style = "<style>text{font:12px sans-serif;fill:#222}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{top}' viewBox='0 0 {_WIDTH} {top}'>"
    return "\n".join([head, style, *drawn, "</svg>\n"])


def _unit(workload: str) -> str:
    if workload == "latency":
        return "ms to the 99th percentile, less is better"
    return "% of the windows are exact" if WORKLOADS[workload].backlog else f"{WORKLOADS[workload].unit}/s"


def _bars(kept: Sequence[Kept]) -> dict[str, list[Bar]]:
    found = medians(kept)
    bars: dict[str, list[Bar]] = {}
    for workload in WORKLOADS:
        for contender in contenders():
            measures = found.get((workload, contender.name))
            if measures is not None:
                bars.setdefault(workload, []).append((contender.name, *_length(measures)))
    return bars


def _length(measures: Mapping[str, float]) -> tuple[float, str]:
    if (delay := measures.get("p99 ms")) is not None:
        return delay, f"{delay:.0f} ms"
    if (exact := measures.get("exact %")) is not None:
        return exact, f"{exact:.0f} %"
    return rate(measures), short(rate(measures))


def _bar(name: str, share: float, text: str, top: int) -> str:
    colour = _COLOURS.get(name.partition(",")[0], _OTHER)
    width = max(1, round(share * _BARS))
    bar = f"<rect x='{_NAMES}' y='{top + 3}' width='{width}' height='{_LINE - 5}' fill='{colour}'/>"
    return f"{_text(20, top + 14, name)}{bar}{_text(_NAMES + width + 5, top + 14, text)}"


def _text(left: int, top: int, text: str, more: str = "") -> str:
    return f"<text x='{left}' y='{top}' {more}>{escape(text)}</text>"
