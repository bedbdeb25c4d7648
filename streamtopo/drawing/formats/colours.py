"""The style sheet of SVG drawings: light, and dark where the reader prefers it.

It has no CSS variables, because many programs that show SVG do not know them and would paint everything black.
Programs that do not know `@media` show the light version.
"""

from __future__ import annotations

_COLOURS = """
.paper { fill: %(paper)s; }
.label { fill: %(muted)s; }
text, .heading { fill: %(ink)s; }
.box > rect { fill: %(box)s; stroke: %(box-line)s; }
.topic .shape { fill: %(topic)s; stroke: %(topic-line)s; }
.topic text { fill: %(topic-ink)s; }
.internal .shape { fill: %(internal)s; stroke: %(internal-line)s; }
.internal text { fill: %(internal-ink)s; }
.processor .shape { fill: %(processor)s; stroke: %(processor-line)s; }
.processor text { fill: %(processor-ink)s; }
.store .shape { fill: %(store)s; stroke: %(store-line)s; }
.store text { fill: %(store-ink)s; }
.source .shape, .sink .shape { fill: %(port)s; stroke: %(port-line)s; }
.source text, .sink text { fill: %(port-ink)s; }
.edge { stroke: %(line)s; }
.edge.state { stroke: %(store-line)s; }
.head { fill: %(line)s; }"""
_LIGHT = {
    "paper": "#ffffff", "ink": "#1b2533", "muted": "#667389", "line": "#8290a5",
    "box": "#f6f8fb", "box-line": "#d5dce6",
    "topic": "#dcf5e8", "topic-line": "#1a9467", "topic-ink": "#0c4a33",
    "internal": "#fff3d6", "internal-line": "#c98a14", "internal-ink": "#6a4506",
    "processor": "#e3edff", "processor-line": "#3b76e1", "processor-ink": "#15376f",
    "store": "#f0e7fe", "store-line": "#8654d6", "store-ink": "#452180",
    "port": "#ffffff", "port-line": "#a9b4c4", "port-ink": "#566276",
}  # fmt: skip
_DARK = {
    "paper": "#10151d", "ink": "#e8edf4", "muted": "#94a1b5", "line": "#74839a",
    "box": "#171e29", "box-line": "#2f3a4a",
    "topic": "#10392b", "topic-line": "#35b98a", "topic-ink": "#c5f2de",
    "internal": "#3d2e0d", "internal-line": "#d9a136", "internal-ink": "#fbe4b1",
    "processor": "#172f57", "processor-line": "#5b92f0", "processor-ink": "#d6e4ff",
    "store": "#321f55", "store-line": "#a27cec", "store-ink": "#e7dafe",
    "port": "#10151d", "port-line": "#4f5d72", "port-ink": "#aab6c8",
}  # fmt: skip
_REST = """
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
  text-anchor: middle; white-space: pre; }
.label { font: 11.5px system-ui, "Segoe UI", Roboto, "Liberation Sans", "DejaVu Sans", sans-serif; text-anchor: start; }
.heading { font-size: 16px; font-weight: 600; }
.box > .label { font-weight: 600; }
.note { font-size: 10px; opacity: .75; }
.box > rect { stroke-width: 1.25; }
.shape { stroke-width: 1.4; }
.internal .shape { stroke-dasharray: 5 3.5; }
.source .shape, .sink .shape { stroke-width: 1.1; }
.source text, .sink text { font-size: 10px; }
.shape.lid { fill: none; }
.edge { fill: none; stroke-width: 1.4; }
.state { stroke-dasharray: 2 4; stroke-linecap: round; }
"""
STYLE = f"{_COLOURS % _LIGHT}\n@media (prefers-color-scheme: dark) {{{_COLOURS % _DARK} }}{_REST}"
