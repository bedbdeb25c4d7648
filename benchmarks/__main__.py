"""python -m benchmarks: list the workloads and experiments, or run those that are named."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import tables
from benchmarks.experiments import EXPERIMENTS
from benchmarks.harness import DifferentResultsError, Figures, Settings, run_pairs
from benchmarks.processes import BrokenRunError
from benchmarks.trials import Findings, run_sides
from benchmarks.workloads import WORKLOADS

RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    every = "all" in options.names or (options.markdown and not options.names)
    names = [*WORKLOADS, *EXPERIMENTS] if every else options.names
    if not names:
        _list()
        return 0
    try:
        _run(names, Settings(options.log, options.runs, options.records), options)
    except (DifferentResultsError, BrokenRunError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Run workloads and experiments; without names: list them."
    )
    parser.add_argument(
        "names",
        nargs="*",
        choices=[*WORKLOADS, *EXPERIMENTS, "all", []],
        metavar="NAME",
        help="workloads or experiments, or: all",
    )
    parser.add_argument(
        "--log", default="memory:", help="memory: (default; experiments: embedded:.streamtopo) or embedded:PATH"
    )
    parser.add_argument("--records", type=int, help="number of records (default: the workload's own)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side, in turn (default 5)")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each workload")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown, as in README.md")
    parser.add_argument("--keep", action="store_true", help="append to results/<machine>/<date>-<commit>.jsonl")
    return parser


def _list() -> None:
    questions = {one.name: one.question for one in WORKLOADS.values()}
    questions |= {one.name: one.question for one in EXPERIMENTS.values()}
    width = max(map(len, questions))
    for name, question in questions.items():
        print(f"{name.ljust(width)}  {question}")


def _run(names: Sequence[str], settings: Settings, options: argparse.Namespace) -> None:
    all_figures: list[Figures] = []
    all_findings: list[Findings] = []
    for name in names:
        done: Figures | Findings
        if name in WORKLOADS:
            all_figures.append(done := run_pairs(WORKLOADS[name], settings, _report))
        else:
            all_findings.append(done := run_sides(EXPERIMENTS[name], settings, _report))
        if options.keep:
            _keep(done)
        if options.json:
            print(json.dumps(done.as_json()), flush=True)
    if options.markdown or not options.json:
        print("\n\n".join(_tables(all_figures, all_findings, marked=options.markdown)))


def _tables(figures: Sequence[Figures], findings: Sequence[Findings], *, marked: bool) -> Iterator[str]:
    """All workloads are rows of one table; each experiment has its own."""
    if figures:
        yield tables.markdown(figures) if marked else tables.text(figures)
    for one in findings:
        yield tables.markdown_of(one) if marked else tables.text_of(one)


def _report(line: str) -> None:
    print(line, file=sys.stderr)


def _keep(done: Figures | Findings) -> None:
    file = RESULTS / done.machine.name / f"{done.at[:10]}-{done.commit}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(done.as_json()) + "\n")


if __name__ == "__main__":
    sys.exit(main())
