"""Run the sides of an experiment in turn, check that their results are equal, and compute figures from the measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

from benchmarks.experiment import Experiment, Observed
from benchmarks.harness import DifferentResultsError, Settings
from benchmarks.machine import Machine, commit, load, this_machine
from benchmarks.places import fresh_site

LOG = "embedded:.streamtopo"
"""Below the working directory, since a directory for temporary files may be in memory."""

Runs = dict[str, tuple[float, ...]]
"""The values of each measure, run by run."""


@dataclass(frozen=True)
class Findings:
    experiment: str
    log: str
    records: int
    sides: dict[str, Runs]
    load: float
    machine: Machine
    commit: str
    at: str

    @property
    def runs(self) -> int:
        return max(len(values) for side in self.sides.values() for values in side.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "log": self.log,
            "records": self.records,
            "medians": {side: {name: median(runs) for name, runs in seen.items()} for side, seen in self.sides.items()},
            "runs": self.sides,
            "load": self.load,
            "machine": self.machine._asdict(),
            "commit": self.commit,
            "at": self.at,
        }


def run_sides(
    experiment: Experiment, settings: Settings, report: Callable[[str], object] = lambda line: None
) -> Findings:
    log = settings.log if settings.log.startswith("embedded:") else LOG
    records = settings.records or experiment.records
    load_before, at = load(), datetime.now(UTC).isoformat(timespec="seconds")
    seen: dict[str, list[Observed]] = {side: [] for side in experiment.sides}
    for turn in range(settings.runs):
        for name, side in experiment.sides.items():
            with fresh_site(log) as site:
                seen[name].append(side(site, records))
            check_equal(experiment.name, name, seen)
            measures = ", ".join(f"{what} {value:,.1f}" for what, value in seen[name][-1].measures.items())
            report(f"{experiment.name}, run {turn + 1} of {settings.runs}, {name}: {measures}")
    sides = {name: _runs(observed) for name, observed in seen.items()}
    return Findings(experiment.name, experiment.log or log, records, sides, load_before, this_machine(), commit(), at)


def check_equal(experiment: str, side: str, seen: dict[str, list[Observed]]) -> None:
    first, last = next(iter(seen.values()))[0].results, seen[side][-1].results
    if first != last:
        raise DifferentResultsError(
            f"{experiment}: {side} left other results than the first run: {last.rows} rows with digest {last.digest}, "
            f"not {first.rows} with {first.digest}"
        )


def _runs(observed: list[Observed]) -> Runs:
    return {name: tuple(one.measures[name] for one in observed) for name in observed[0].measures}
