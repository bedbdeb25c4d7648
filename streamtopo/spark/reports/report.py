"""A report: the tables of an application as one HTML file with charts, without network or scripts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from html import escape
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import DateType, NumericType, StringType, TimestampType

from streamtopo.spark.declarations import Rollup, View
from streamtopo.spark.delta import versions
from streamtopo.spark.reports import charts
from streamtopo.spark.rollups.reading import read_rollup

ROWS = 20
"""The number of rows that a table shows, and of bars."""
SERIES = 8
"""The most lines in a chart; with more, bars show the last span."""
FETCHED = 5_000
"""How many of the latest rows are drawn in charts."""
MEASURES = 4
"""How many measures of a table are drawn."""


@dataclass
class Shape:
    """The roles of the columns of a table."""

    time: str | None
    labels: list[str]
    measures: list[str]


def write_report(spark: SparkSession, title: str, tables: Sequence[Rollup | View], out: str, file: str) -> None:
    """Write a report of the existing tables; the file is replaced when it is complete."""
    there = [one for one in tables if (Path(out) / one.name / versions.LOG).exists()]
    sections = "".join(_section(one, read_rollup(spark, out, one.name)) for one in there) or "<p>No tables yet.</p>"
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    new = Path(f"{file}.new")
    new.write_text(PAGE.format(title=escape(title), made=made, style=STYLE, sections=sections), encoding="utf-8")
    new.rename(file)


def _section(one: Rollup | View, frame: DataFrame) -> str:
    shape = shape_of(frame, one.keys if isinstance(one, Rollup) else ())
    latest = _latest(frame, shape.time).collect()
    about = escape((one.function.__doc__ or "").strip().partition("\n")[0])
    rows = frame.count()
    figures = "".join(drawn(shape, latest))
    shown = f"the latest {ROWS} of {rows:,} rows" if rows > ROWS else f"{rows:,} rows"
    table = f"<details><summary>{shown}</summary>{_table(frame.columns, latest[:ROWS])}</details>"
    return f'<section id="{one.name}"><h2>{one.name}</h2><p>{about}</p>{figures}{table}</section>'


def _latest(frame: DataFrame, time: str | None) -> DataFrame:
    others = [name for name in frame.columns if name != time]
    return (frame.orderBy(frame[time].desc(), *others) if time else frame).limit(FETCHED)


def shape_of(frame: DataFrame, keys: Sequence[str]) -> Shape:
    """The first date or time is the moment; texts or keys name the series; the other numbers are the measures."""
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    times = [name for name, kind in kinds.items() if isinstance(kind, DateType | TimestampType)]
    texts = [name for name, kind in kinds.items() if isinstance(kind, StringType)]
    measures = [name for name, kind in kinds.items() if isinstance(kind, NumericType) and name not in keys]
    return Shape(times[0] if times else None, texts or [key for key in keys if key in kinds], measures[:MEASURES])


def drawn(shape: Shape, rows: Sequence[Row]) -> Iterator[str]:
    """A chart for each measure: lines over time if they can be distinguished, else bars of the last span."""
    rows = [row for row in rows if shape.time is None or row[shape.time] is not None]
    names = {_label(shape, row) for row in rows}
    moments = {row[shape.time] for row in rows} if shape.time else set()
    for measure in shape.measures:
        found = [row for row in rows if row[measure] is not None]
        if not found:
            continue
        if len(moments) > 1 and len(names) <= SERIES:
            series: dict[str, list[tuple[date, float]]] = defaultdict(list)
            for row in found:
                series[_label(shape, row)].append((row[shape.time], float(row[measure])))
            drawing, what = charts.lines(dict(sorted(series.items()))), measure
        else:
            last = [row for row in found if shape.time is None or row[shape.time] == rows[0][shape.time]]
            top = sorted(last, key=lambda row: -float(row[measure]))[:ROWS]
            drawing = charts.bars([(_label(shape, row) or measure, float(row[measure])) for row in top])
            what = f"{measure}, {charts.moment_text(rows[0][shape.time])}" if shape.time else measure
        yield f"<figure><figcaption>{escape(what)}</figcaption>{drawing}</figure>"


def _label(shape: Shape, row: Row) -> str:
    return " ".join(str(row[name]) for name in shape.labels)


def _table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    shown: Callable[[Any], str] = charts.moment_text if isinstance(value, date) else str
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td class="number">{charts.number(value)}</td>'
    return f"<td>{'' if value is None else escape(shown(value))}</td>"


STYLE = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif;
  --line: light-dark(#ddd, #444); --soft: light-dark(#666, #aaa); }
body { max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin: 2.5rem 0 0; } p, figcaption, summary { color: var(--soft); } figure { margin: 1rem 0; }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--soft); text-anchor: middle; }
svg text.label { text-anchor: end; } svg rect + text { text-anchor: start; }
svg line { stroke: var(--line); } polyline { fill: none; stroke-width: 2; stroke: var(--c); }
circle, rect { fill: var(--c); }
.c0 { --c: #3b7dd8; } .c1 { --c: #d9822b; } .c2 { --c: #3a9e5c; } .c3 { --c: #c8453b; }
.c4 { --c: #8a63c9; } .c5 { --c: #2aa5a5; } .c6 { --c: #b8567e; } .c7 { --c: #8a8a2a; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0 1.2rem; padding: 0; margin: 0; }
.legend li::before { content: ""; display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em;
  border-radius: 50%; background: var(--c); }
details { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.1rem 0.8rem 0.1rem 0; border-bottom: 1px solid var(--line); }
td.number { text-align: right; }
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<p>{made}</p>
{sections}
</body>
</html>
"""
