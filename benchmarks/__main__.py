"""python -m benchmarks: lists the workloads, or runs those that are named."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import tables
from benchmarks.harness import DifferentResultsError, Figures, Settings, run_pairs
from benchmarks.workloads import WORKLOADS

RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    names = list(WORKLOADS) if "all" in options.names or (options.markdown and not options.names) else options.names
    if not names:
        _list()
        return 0
    try:
        _run(names, Settings(options.log, options.runs, options.records), options)
    except DifferentResultsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Without names: list the workloads.")
    parser.add_argument("names", nargs="*", choices=[*WORKLOADS, "all", []], metavar="NAME", help="a workload, or all")
    parser.add_argument("--log", default="memory:", help="memory: or embedded:PATH (default memory:)")
    parser.add_argument("--records", type=int, help="instead of the workload's own number")
    parser.add_argument("--runs", type=int, default=5, help="pairs of runs (default 5)")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each workload")
    parser.add_argument("--markdown", action="store_true", help="the table of README.md")
    parser.add_argument("--keep", action="store_true", help="append to results/<machine>/<date>-<commit>.jsonl")
    return parser


def _list() -> None:
    width = max(map(len, WORKLOADS))
    for workload in WORKLOADS.values():
        print(f"{workload.name.ljust(width)}  {workload.question}")


def _run(names: Sequence[str], settings: Settings, options: argparse.Namespace) -> None:
    done: list[Figures] = []
    for figures in _figures(names, settings):
        done.append(figures)
        if options.keep:
            _keep(figures)
        if options.json:
            print(json.dumps(figures.as_json()), flush=True)
    if options.markdown:
        print(tables.markdown(done))
    elif not options.json:
        print(tables.text(done))


def _figures(names: Sequence[str], settings: Settings) -> Iterator[Figures]:
    for name in names:
        yield run_pairs(WORKLOADS[name], settings, lambda line: print(line, file=sys.stderr))


def _keep(figures: Figures) -> None:
    file = RESULTS / figures.machine.name / f"{figures.at[:10]}-{figures.commit}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(figures.as_json()) + "\n")


if __name__ == "__main__":
    sys.exit(main())
