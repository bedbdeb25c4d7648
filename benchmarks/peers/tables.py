"""The measurements as Markdown: the medians of all runs, and streamtopo's ratio to Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.peers.contenders import AT_LEAST, EXACTLY, contenders
from benchmarks.peers.workloads import WORKLOADS

Kept = Mapping[str, Any]
Medians = dict[tuple[str, str], dict[str, float]]
"""The measures of each workload and contender."""

RIVAL = "Kafka Streams"


def medians(kept: Iterable[Kept]) -> Medians:
    seen: dict[tuple[str, str], dict[str, list[float]]] = {}
    for one in kept:
        for measure, value in one.get("seen", {}).items():
            seen.setdefault((one["workload"], one["contender"]), {}).setdefault(measure, []).append(value)
    return {key: {name: median(values) for name, values in found.items()} for key, found in seen.items()}


def table(kept: Sequence[Kept]) -> str:
    found = medians(kept)
    lines = [line for part in (_rates(found), _backlogs(found)) if part for line in (*part, "")]
    broken = dict.fromkeys(f"{one['workload']}, {one['contender']}: {one['broken']}" for one in kept if "broken" in one)
    return "\n".join([*lines, *broken, _conditions(kept)])


def _rates(found: Medians) -> list[str]:
    workloads = [name for name, one in WORKLOADS.items() if not one.backlog and any(name == at for at, _ in found)]
    rows = [[name, *(_cell(found.get((on, name))) for on in workloads)] for name in _names(found, workloads)]
    return _markdown(["", *workloads], [*rows, *_ratios(found, workloads)])


def _backlogs(found: Medians) -> list[str]:
    """A rate is compared only with what it was reached for: the share of results that are right."""
    rows = [
        [
            name,
            f"{measures['exact %']:.1f} %",
            f"{measures['missing']:,.0f}",
            f"{measures['late']:,.0f}" if "late" in measures else "",
            short(rate(measures)),
            f"{measures['CPU us']:.1f}",
        ]
        for name in _names(found, ["backlog"])
        for measures in [found["backlog", name]]
    ]
    columns = ["exact windows", "records missing", "reported as late", "records/s", "us of CPU a record"]
    return _markdown(["backlog", *columns], rows)


def _names(found: Medians, workloads: Sequence[str]) -> list[str]:
    return [one.name for one in contenders() if any((workload, one.name) in found for workload in workloads)]


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return [f"| {' | '.join(line)} |" for line in lines] if rows else []


def _cell(measures: Mapping[str, float] | None) -> str:
    if measures is None:
        return ""
    if "p50 ms" in measures:
        return f"{measures['p50 ms']:.1f} / {measures['p99 ms']:.1f} ms"
    return short(rate(measures))


def rate(measures: Mapping[str, float]) -> float:
    return next(value for name, value in measures.items() if name.endswith("/s"))


def short(value: float) -> str:
    return f"{value / 1000:.0f}k" if value >= 10_000 else f"{value / 1000:.1f}k"


def _ratios(found: Medians, workloads: Sequence[str]) -> list[list[str]]:
    """Compare with the better of the rival's settings, at the same guarantee."""
    rows = []
    for guarantee in (EXACTLY, AT_LEAST):
        cells = [_ratio(found, workload, guarantee) for workload in workloads]
        if any(cells):
            rows.append([f"**streamtopo to {RIVAL}, {guarantee}**", *cells])
    return rows


def _ratio(found: Medians, workload: str, guarantee: str) -> str:
    mine = found.get((workload, f"streamtopo, {guarantee}"))
    theirs = [
        measures
        for (at, name), measures in found.items()
        if at == workload and name.startswith(f"{RIVAL}, {guarantee}")
    ]
    if mine is None or not theirs or "p99 ms" in mine:
        return ""
    return f"**{rate(mine) / max(map(rate, theirs)):.2f}**"


def _conditions(kept: Sequence[Kept]) -> str:
    last = kept[-1]
    machine = last["machine"]
    days = " to ".join(dict.fromkeys((min(one["at"] for one in kept)[:10], last["at"][:10])))
    commits = ", ".join(dict.fromkeys(one["commit"] for one in kept))
    return f"{days}, commit {commits}; {machine['cpu']}, {machine['cores']} cores, Python {machine['python']}."
