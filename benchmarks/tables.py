"""Figures as tables, for a terminal and for README.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from benchmarks.harness import Figures
from benchmarks.machine import Machine
from benchmarks.trials import Findings

Row = tuple[str, ...]

_HEAD = ("workload", "records", "engine", "spread", "bare loop", "spread", "ratio", "by CPU time")


def text(all_figures: Iterable[Figures]) -> str:
    return _aligned([_HEAD, *map(_cells, all_figures)])


def markdown(all_figures: Sequence[Figures]) -> str:
    return f"{_marked([_HEAD, *map(_cells, all_figures)])}\n\n{_conditions(all_figures)}"


def text_of(findings: Findings) -> str:
    return _aligned(_of_sides(findings))


def markdown_of(findings: Findings) -> str:
    conditions = (
        f"{findings.records:,} records, {_made(findings.at, findings.commit, findings.log)}, medians of "
        f"{findings.runs} runs (lowest to highest); {_on(findings.machine)}; load before the runs {findings.load}"
    )
    return f"{_marked(_of_sides(findings))}\n\n{conditions}"


def _aligned(rows: Sequence[Row]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(_padded, row, widths, range(len(row)))) for row in rows)


def _marked(rows: Sequence[Row]) -> str:
    rows = [rows[0], ("---", *["--:"] * (len(rows[0]) - 1)), *rows[1:]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _of_sides(findings: Findings) -> list[Row]:
    """A row for each side, and a column for each measure of any side."""
    measures = list(dict.fromkeys(name for runs in findings.sides.values() for name in runs))
    lines = [(side, *(_of_runs(runs.get(name)) for name in measures)) for side, runs in findings.sides.items()]
    return [(findings.experiment, *measures), *lines]


def _of_runs(runs: Sequence[float] | None) -> str:
    if runs is None:
        return ""
    spread = f" ({_short(min(runs))} to {_short(max(runs))})" if len(runs) > 1 else ""
    return _short(median(runs)) + spread


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{float(f'{value:.3g}'):,.0f}"


def _cells(figures: Figures) -> tuple[str, ...]:
    return (
        figures.workload,
        f"{figures.records:,}",
        f"{_rounded(figures.engine.median):,} {figures.unit}/s",
        f"{figures.engine.spread:.0%}",
        f"{_rounded(figures.bare.median):,} {figures.unit}/s",
        f"{figures.bare.spread:.0%}",
        f"{figures.ratio:.2f}",
        f"{figures.cpu_ratio:.2f}",
    )


def _rounded(rate: float) -> int:
    """Round to a thousand: noise is larger than that."""
    return round(rate / 1000) * 1000 if rate >= 1000 else round(rate)


def _padded(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def _conditions(all_figures: Sequence[Figures]) -> str:
    first = all_figures[0]
    return (
        f"{_made(first.at, first.commit, first.log)}, medians of "
        f"{len(first.engine.by_clock)} pairs; {_on(first.machine)}; load before the runs "
        f"{min(one.load for one in all_figures)} to {max(one.load for one in all_figures)}, "
        f"runs had their core for {min(one.on_core for one in all_figures):.0%} of the time or more"
    )


def _made(at: str, commit: str, log: str) -> str:
    return f"{at[:10]}, commit {commit}, log `{log.partition(':')[0]}:`"


def _on(machine: Machine) -> str:
    return f"{machine.cpu}, {machine.cores} cores, Python {machine.python}"
