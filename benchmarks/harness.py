"""Run engine and bare loop in turn, check that their results are equal, and compute figures from the times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any, NamedTuple

from benchmarks.machine import Machine, commit, load, this_machine
from benchmarks.run import Measured, Request, measure
from benchmarks.workload import Workload


class DifferentResultsError(Exception):
    """The two programs gave different results, so their times cannot be compared."""


@dataclass(frozen=True)
class Settings:
    log: str = "memory:"
    runs: int = 5
    records: int | None = None
    """None for the workload's default."""


class Rates(NamedTuple):
    """Units per second of each run."""

    by_clock: tuple[float, ...]
    by_cpu: tuple[float, ...]
    """By the process's CPU time: other processes on the machine hardly affect it, but waiting is not included."""

    @property
    def median(self) -> float:
        return median(self.by_clock)

    @property
    def spread(self) -> float:
        """The difference between slowest and fastest run, divided by the median."""
        return (max(self.by_clock) - min(self.by_clock)) / self.median


@dataclass(frozen=True)
class Figures:
    """`engine` and `bare` have the same number of runs, made in turn."""

    workload: str
    unit: str
    log: str
    records: int
    engine: Rates
    bare: Rates
    load: float
    machine: Machine
    commit: str
    at: str

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios: a slow machine slows both runs of a pair."""
        return _ratio(self.engine.by_clock, self.bare.by_clock)

    @property
    def cpu_ratio(self) -> float:
        return _ratio(self.engine.by_cpu, self.bare.by_cpu)

    @property
    def on_core(self) -> float:
        """The share of the time for which the runs had their core, the smallest of all."""
        clock, cpu = self.engine.by_clock + self.bare.by_clock, self.engine.by_cpu + self.bare.by_cpu
        return min(1.0, *(by_clock / by_cpu for by_clock, by_cpu in zip(clock, cpu, strict=True)))

    def as_json(self) -> dict[str, Any]:
        return {
            "workload": self.workload,
            "unit": self.unit,
            "log": self.log,
            "records": self.records,
            "engine": round(self.engine.median),
            "bare": round(self.bare.median),
            "ratio": round(self.ratio, 3),
            "cpu_ratio": round(self.cpu_ratio, 3),
            "engine_spread": round(self.engine.spread, 3),
            "bare_spread": round(self.bare.spread, 3),
            "engine_runs": _rounded(self.engine),
            "bare_runs": _rounded(self.bare),
            "on_core": round(self.on_core, 2),
            "load": self.load,
            "machine": self.machine._asdict(),
            "commit": self.commit,
            "at": self.at,
        }


def run_pairs(workload: Workload, settings: Settings, report: Callable[[str], object] = lambda line: None) -> Figures:
    records = settings.records or workload.records
    load_before, at = load(), datetime.now(UTC).isoformat(timespec="seconds")
    engine, bare = [], []
    for turn in range(settings.runs):
        engine.append(measure(Request(workload.name, "engine", settings.log, records)))
        bare.append(measure(Request(workload.name, "bare", settings.log, records)))
        check_equal(workload.name, engine[-1], bare[-1])
        times = f"engine {engine[-1].seconds:.2f} s, bare loop {bare[-1].seconds:.2f} s"
        report(f"{workload.name}, pair {turn + 1} of {settings.runs}: {times}")
    units = records * workload.units
    rates = _rates(units, engine), _rates(units, bare)
    place = workload.name, workload.unit, settings.log, records
    return Figures(*place, *rates, load_before, this_machine(), commit(), at)


def check_equal(name: str, engine: Measured, bare: Measured) -> None:
    if engine.results != bare.results:
        raise DifferentResultsError(
            f"{name}: engine and bare loop left different results: {engine.results.rows} rows with digest "
            f"{engine.results.digest}, and {bare.results.rows} with {bare.results.digest}"
        )


def _rates(units: int, runs: Sequence[Measured]) -> Rates:
    return Rates(tuple(units / run.seconds for run in runs), tuple(units / run.cpu_seconds for run in runs))


def _ratio(engine: Sequence[float], bare: Sequence[float]) -> float:
    return median(ours / theirs for ours, theirs in zip(engine, bare, strict=True))


def _rounded(rates: Rates) -> dict[str, list[int]]:
    return {name: list(map(round, values)) for name, values in rates._asdict().items()}
