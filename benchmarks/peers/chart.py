"""The rates as bars, in SVG: one chart for each workload, with its own scale."""

from __future__ import annotations

from collections.abc import Sequence
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
    return "ms to the 99th percentile, less is better" if workload == "latency" else f"{WORKLOADS[workload].unit}/s"


def _bars(kept: Sequence[Kept]) -> dict[str, list[Bar]]:
    found = medians(kept)
    bars: dict[str, list[Bar]] = {}
    for workload in WORKLOADS:
        for contender in contenders():
            measures = found.get((workload, contender.name))
            if measures is not None and "p99 ms" in measures:
                length = measures["p99 ms"]
                bars.setdefault(workload, []).append((contender.name, length, f"{length:.0f} ms"))
            elif measures is not None:
                bars.setdefault(workload, []).append((contender.name, rate(measures), short(rate(measures))))
    return bars


def _bar(name: str, share: float, text: str, top: int) -> str:
    colour = _COLOURS.get(name.partition(",")[0], _OTHER)
    width = max(1, round(share * _BARS))
    bar = f"<rect x='{_NAMES}' y='{top + 3}' width='{width}' height='{_LINE - 5}' fill='{colour}'/>"
    return f"{_text(20, top + 14, name)}{bar}{_text(_NAMES + width + 5, top + 14, text)}"


def _text(left: int, top: int, text: str, more: str = "") -> str:
    return f"<text x='{left}' y='{top}' {more}>{escape(text)}</text>"
