"""python -m benchmarks.profile NAME: where the time goes, by function, in nanoseconds per record."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from benchmarks.run import Measured, Request, execute, measure, pin, warm_up
from benchmarks.sampling import Signalled, Stacks, py_spy, spy_on
from benchmarks.workloads import WORKLOADS


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    records = options.records or WORKLOADS[options.name].records
    request = Request(options.name, options.side, options.log, records)
    if options.watched:
        _run(request)
        return 0
    program = None if options.signal else py_spy()
    stacks = spy_on(_command(request), program) if program else _signalled(request)
    _print(stacks, measure(request), request, options.rows, "py-spy" if program else "a timer signal")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile")
    parser.add_argument("name", choices=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--side", choices=["engine", "bare"], default="engine")
    parser.add_argument("--log", default="memory:")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rows", type=int, default=25, help="functions to print (default 25)")
    parser.add_argument(
        "--signal", action="store_true", help="use a timer signal even if py-spy is installed, which is more exact"
    )
    parser.add_argument("--watched", action="store_true", help=argparse.SUPPRESS)
    return parser


def _command(request: Request) -> list[str]:
    """Return the command for this program, to be run under a profiler."""
    options = ["--side", request.side, "--log", request.log, "--records", str(request.records), "--watched"]
    return [sys.executable, "-m", "benchmarks.profile", request.workload, *options]


def _run(request: Request, watching: Signalled | None = None) -> None:
    pin()
    warm_up(request)
    execute(request, watching)


def _signalled(request: Request) -> Stacks:
    watching = Signalled()
    _run(request, watching)
    return watching.stacks


def _print(stacks: Stacks, measured: Measured, request: Request, rows: int, by: str) -> None:
    """The shares are from the profiled run, the times from one without a profiler."""
    workload = WORKLOADS[request.workload]
    total = measured.cpu_seconds * 1e9 / (request.records * workload.units)
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for stack, weight in stacks.items():
        own[stack[0]] += weight
        whole.update(dict.fromkeys(stack, weight))
    each = total / max(1, stacks.total())
    print(f"{request.workload}, {request.side}: {total:.0f} ns of CPU per {workload.unit[:-1]}; shares by {by}")
    print("   own  whole   (whole: with the functions it calls)")
    for name, weight in own.most_common(rows):
        print(f"{weight * each:6.0f} {whole[name] * each:6.0f}   {name}")


if __name__ == "__main__":
    sys.exit(main())
