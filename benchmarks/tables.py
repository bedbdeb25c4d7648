"""Figures as tables: for a terminal, and for README.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.harness import Figures

_HEAD = ("workload", "records", "engine", "spread", "bare loop", "spread", "ratio", "by CPU time")


def text(all_figures: Iterable[Figures]) -> str:
    rows = [_HEAD, *map(_cells, all_figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(_padded, row, widths, range(len(row)))) for row in rows)


def markdown(all_figures: Sequence[Figures]) -> str:
    rows = [_HEAD, ("---", *["--:"] * (len(_HEAD) - 1)), *map(_cells, all_figures)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{table}\n\n{_conditions(all_figures)}"


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
    """To a thousand: noise is more than that."""
    return round(rate / 1000) * 1000 if rate >= 1000 else round(rate)


def _padded(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def _conditions(all_figures: Sequence[Figures]) -> str:
    first = all_figures[0]
    cpu, cores, python, _ = first.machine
    return (
        f"{first.at[:10]}, commit {first.commit}, log `{first.log.partition(':')[0]}:`, medians of "
        f"{len(first.engine.by_clock)} pairs; {cpu}, {cores} cores, Python {python}; load before the runs "
        f"{min(one.load for one in all_figures)} to {max(one.load for one in all_figures)}, "
        f"runs had their core for {min(one.on_core for one in all_figures):.0%} of the time or more"
    )
