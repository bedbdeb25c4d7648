"""Charts as self-contained SVG text: lines over time, and bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from html import escape

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 28
ROOM = 130
"""The space for the text of a moment."""
BAR = 22
"""The height of a bar in pixels, with its gap."""
LABEL = 160
COLOURS = 8
"""The number of colours in the style sheet; more series would look alike."""
Moment = date | datetime
Points = Sequence[tuple[Moment, float]]


def lines(series: Mapping[str, Points]) -> str:
    """A line for each series; a single point is a dot."""
    moments = sorted({moment for points in series.values() for moment, _ in points})
    values = [value for points in series.values() for _, value in points if math.isfinite(value)]
    ticks = nice_ticks(min(values, default=0), max(values, default=0))
    first, last = _seconds(moments[0]), _seconds(moments[-1])

    def x(moment: Moment) -> float:
        across = (_seconds(moment) - first) / (last - first) if last > first else 0.5
        return LEFT + across * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - ticks[0]) / (ticks[-1] - ticks[0]) * (HEIGHT - TOP - BOTTOM)

    parts = [_level(y(tick), tick) for tick in ticks]
    parts += [_moment(x(moment), moment) for moment in _spaced(moments, x)]
    for place, points in enumerate(series.values()):
        found = [(x(moment), y(value)) for moment, value in sorted(points) if math.isfinite(value)]
        path = " ".join(f"{across:.1f},{down:.1f}" for across, down in found)
        parts.append(f'<polyline class="c{place % COLOURS}" points="{path}"/>')
        parts += [f'<circle class="c{place % COLOURS}" cx="{a:.1f}" cy="{d:.1f}" r="2.5"/>' for a, d in found]
    legend = "".join(f'<li class="c{place % COLOURS}">{escape(name)}</li>' for place, name in enumerate(series))
    shown = f'<ul class="legend">{legend}</ul>' if len(series) > 1 else ""
    return f"{_svg(HEIGHT, parts)}{shown}"


def bars(rows: Sequence[tuple[str, float]]) -> str:
    values = [0.0, *(value for _, value in rows if math.isfinite(value))]
    least, most = min(values), max(values) if any(values) else 1
    room = WIDTH - LABEL - 70
    parts = []
    for place, (label, value) in enumerate(rows):
        down = place * BAR
        size = (value - least) / (most - least) * room if math.isfinite(value) else 0
        parts.append(f'<text class="label" x="{LABEL - 8}" y="{down + 15}">{escape(_short(label))}</text>')
        parts.append(f'<rect class="c0" x="{LABEL}" y="{down + 3}" width="{size:.1f}" height="{BAR - 6}"/>')
        parts.append(f'<text x="{LABEL + size + 6:.1f}" y="{down + 15}">{number(value)}</text>')
    return _svg(len(rows) * BAR + 4, parts)


def nice_ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers around these two.

    >>> nice_ticks(3, 47), nice_ticks(5, 5), nice_ticks(0.12, 0.31)
    ([0, 20, 40, 60], [4.0, 4.5, 5.0, 5.5, 6.0], [0.1, 0.15, 0.2, 0.25, 0.3, 0.35])
    """
    if low == high:
        margin = max(1, abs(low) / 10)
        low, high = low - margin, high + margin
    rough = (high - low) / about
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = 1 - math.floor(math.log10(step))
    return [round(place * step, digits) for place in range(first, last + 1)]


def number(value: float) -> str:
    """Format a number for people.

    >>> number(1234567), number(0.5), number(21.0), number(float("nan"))
    ('1,234,567', '0.5', '21', 'nan')
    """
    return f"{value:,.0f}" if math.isfinite(value) and value == int(value) else f"{value:,.4g}"


def _svg(height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def _level(down: float, value: float) -> str:
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down:.1f}" y2="{down:.1f}"/>'
    return f'{line}<text class="label" x="{LEFT - 8}" y="{down + 4:.1f}">{number(value)}</text>'


def _moment(across: float, moment: Moment) -> str:
    place = "last" if across > WIDTH - ROOM / 2 else "middle"
    return f'<text class="{place}" x="{across:.1f}" y="{HEIGHT - 8}">{moment_text(moment)}</text>'


def moment_text(moment: Moment) -> str:
    """The text of a moment in UTC; Spark returns times of the local time zone.

    >>> moment_text(date(2026, 11, 18)), moment_text(datetime.fromisoformat("2026-11-18T01:00+02:00"))
    ('2026-11-18', '2026-11-17 23:00')
    """
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}" if isinstance(moment, datetime) else f"{moment:%Y-%m-%d}"


def _spaced(moments: Sequence[Moment], x: Callable[[Moment], float]) -> list[Moment]:
    """The moments whose text fits."""
    kept = [moments[0]]
    for moment in moments[1:]:
        if x(moment) - x(kept[-1]) >= ROOM:
            kept.append(moment)
    return kept


def _seconds(moment: Moment) -> float:
    whole = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return whole.timestamp()


def _short(label: str) -> str:
    return label if len(label) <= 24 else f"{label[:23]}…"
