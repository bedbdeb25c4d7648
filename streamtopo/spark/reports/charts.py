"""Charts as self-contained SVG text: lines over time, and bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from html import escape

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 34, 12, 28
TICKS = 5.5
"""So many times fit below a chart, about."""
_DAY = 86_400
_MONDAY = 4 * _DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STEPS = [
    *(minutes * 60 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)),
    *(days * _DAY for days in (1, 2, 7, 14, 28, 91, 182, 364, 728)),
]
"""Seconds between two times on an axis."""
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

    least = 0 if isinstance(moments[0], datetime) else _DAY

    def x(seconds: float) -> float:
        across = (seconds - first) / (last - first) if last > first else 0.5
        return LEFT + across * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - ticks[0]) / (ticks[-1] - ticks[0]) * (HEIGHT - TOP - BOTTOM)

    parts = [_level(y(tick), tick) for tick in ticks]
    parts += [_tick(x(seconds), text) for seconds, text in time_ticks(first, last, least)]
    for place, points in enumerate(series.values()):
        found = [(x(_seconds(moment)), y(value)) for moment, value in sorted(points) if math.isfinite(value)]
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


def time_ticks(first: float, last: float, least: float = 0) -> list[tuple[float, str]]:
    """Round times in UTC between these two, in seconds since 1970, and their texts: the date only where it is new.

    >>> [text for _, text in time_ticks(75_600, 160_000)]
    ['1970-01-02', '06:00', '12:00', '18:00']
    >>> [text for _, text in time_ticks(0, 30 * 86_400)]
    ['1970-01-05', '1970-01-12', '1970-01-19', '1970-01-26']
    >>> time_ticks(5, 5)
    [(5, '1970-01-01 00:00')]
    """
    steps = (step for step in STEPS if step >= least and (last - first) / step <= TICKS)
    step = next(steps, math.ceil((last - first) / TICKS))
    origin = _MONDAY if step >= 7 * _DAY else 0
    places = range(math.ceil((first - origin) / step), math.floor((last - origin) / step) + 1)
    times: list[float] = [place * step + origin for place in places] if last > first else []
    found: list[tuple[float, str]] = []
    for seconds in times or [first]:
        moment = _EPOCH + timedelta(seconds=seconds)
        form = "%Y-%m-%d" if (times or least) and not seconds % _DAY else "%H:%M" if found else "%Y-%m-%d %H:%M"
        found.append((seconds, f"{moment:{form}}"))
    return found


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


def _tick(across: float, text: str) -> str:
    line = f'<line x1="{across:.1f}" x2="{across:.1f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 5}"/>'
    return f'{line}<text x="{across:.1f}" y="{HEIGHT - 8}">{text}</text>'


def moment_text(moment: Moment) -> str:
    """The text of a moment in UTC; Spark returns times of the local time zone.

    >>> moment_text(date(2026, 11, 18)), moment_text(datetime.fromisoformat("2026-11-18T01:00+02:00"))
    ('2026-11-18', '2026-11-17 23:00')
    """
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}" if isinstance(moment, datetime) else f"{moment:%Y-%m-%d}"


def _seconds(moment: Moment) -> float:
    whole = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return whole.timestamp()


def _short(label: str) -> str:
    return label if len(label) <= 24 else f"{label[:23]}…"
