"""The style sheet of SVG drawings: light, and dark where the reader prefers it."""

from __future__ import annotations

STYLE = """
svg { --paper: #ffffff; --ink: #1b2533; --muted: #667389; --line: #8290a5;
  --box: #f6f8fb; --box-line: #d5dce6;
  --topic: #dcf5e8; --topic-line: #1a9467; --topic-ink: #0c4a33;
  --internal: #fff3d6; --internal-line: #c98a14; --internal-ink: #6a4506;
  --processor: #e3edff; --processor-line: #3b76e1; --processor-ink: #15376f;
  --store: #f0e7fe; --store-line: #8654d6; --store-ink: #452180;
  --port: #ffffff; --port-line: #a9b4c4; --port-ink: #566276; }
@media (prefers-color-scheme: dark) { svg {
  --paper: #10151d; --ink: #e8edf4; --muted: #94a1b5; --line: #74839a;
  --box: #171e29; --box-line: #2f3a4a;
  --topic: #10392b; --topic-line: #35b98a; --topic-ink: #c5f2de;
  --internal: #3d2e0d; --internal-line: #d9a136; --internal-ink: #fbe4b1;
  --processor: #172f57; --processor-line: #5b92f0; --processor-ink: #d6e4ff;
  --store: #321f55; --store-line: #a27cec; --store-ink: #e7dafe;
  --port: #10151d; --port-line: #4f5d72; --port-ink: #aab6c8; } }
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
  text-anchor: middle; fill: var(--ink); white-space: pre; }
.label { font: 11.5px system-ui, "Segoe UI", Roboto, "Liberation Sans", "DejaVu Sans", sans-serif;
  text-anchor: start; fill: var(--muted); }
.heading { font-size: 16px; font-weight: 600; fill: var(--ink); }
.box > .label { font-weight: 600; }
.note { font-size: 10px; opacity: .75; }
.paper { fill: var(--paper); }
.box > rect { fill: var(--box); stroke: var(--box-line); stroke-width: 1.25; }
.shape { stroke-width: 1.4; }
.topic .shape { fill: var(--topic); stroke: var(--topic-line); }
.topic text { fill: var(--topic-ink); }
.internal .shape { fill: var(--internal); stroke: var(--internal-line); stroke-dasharray: 5 3.5; }
.internal text { fill: var(--internal-ink); }
.processor .shape { fill: var(--processor); stroke: var(--processor-line); }
.processor text { fill: var(--processor-ink); }
.store .shape { fill: var(--store); stroke: var(--store-line); }
.store text { fill: var(--store-ink); }
.source .shape, .sink .shape { fill: var(--port); stroke: var(--port-line); stroke-width: 1.1; }
.source text, .sink text { font-size: 10px; fill: var(--port-ink); }
.topic .lid, .internal .lid, .store .lid { fill: none; }
.edge { fill: none; stroke: var(--line); stroke-width: 1.4; }
.state { stroke: var(--store-line); stroke-dasharray: 2 4; stroke-linecap: round; }
.head { fill: var(--line); }
"""
