"""python -m benchmarks.peers: run the peers in turn on one broker; print the table and draw the chart."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness import DifferentResultsError
from benchmarks.machine import commit, load, this_machine
from benchmarks.peers.chart import chart
from benchmarks.peers.contenders import Contender, contenders
from benchmarks.peers.environments import MissingPeerError
from benchmarks.peers.running import measured
from benchmarks.peers.server import Server, running
from benchmarks.peers.tables import table
from benchmarks.peers.workloads import WORKLOADS
from benchmarks.processes import BrokenRunError

PEERS = tuple(dict.fromkeys(one.peer for one in contenders()))
NAMES = tuple(one.name for one in contenders())
FILE = Path("peers.jsonl")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    broken = 0
    if options.runs:
        with running() as server, options.file.open("a") as lines:
            for found in _runs(options, server):
                print(json.dumps(found), file=lines, flush=True)
                broken += "broken" in found
    kept = [json.loads(line) for line in options.file.read_text().splitlines()]
    print(table(kept))
    options.file.with_suffix(".svg").write_text(chart(kept))
    return 1 if broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=[*PEERS, *NAMES],
        default=PEERS,
        metavar="NAME",
        help="peers, or rows of the table, such as 'Faust' and 'Kafka Streams, exactly once, tuned'",
    )
    parser.add_argument(
        "--records",
        type=int,
        help="number of records (default: the workload's own); slow peers get fewer, except for backlog",
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each, in turn (default 3); 0 only draws")
    parser.add_argument("--file", type=Path, default=FILE, help=f"file to which runs are appended (default {FILE})")
    return parser


def _runs(options: argparse.Namespace, server: Server) -> Iterator[dict[str, Any]]:
    chosen = [one for one in contenders() if one.peer in options.peers or one.name in options.peers]
    _run(next(contenders()), "keyed-count", options.records, server)  # not counted: the broker is cold
    for workload in options.workloads:
        for turn in range(options.runs):
            for contender in chosen:
                if workload in contender.workloads:
                    found = _run(contender, workload, options.records, server)
                    figures = found.get("broken") or ", ".join(
                        f"{what} {value:,.1f}" for what, value in found["seen"].items()
                    )
                    print(f"{workload}, run {turn + 1} of {options.runs}, {contender.name}: {figures}", file=sys.stderr)
                    yield found


def _run(contender: Contender, workload: str, records: int | None, server: Server) -> dict[str, Any]:
    count = records or WORKLOADS[workload].records
    if workload not in ("latency", "backlog"):
        count = max(100, round(count * contender.share))
    about = {
        "workload": workload,
        "contender": contender.name,
        "records": count,
        "load": load(),
        "machine": this_machine()._asdict(),
        "commit": commit(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        return about | {"seen": measured(contender, workload, count, server)}
    except (BrokenRunError, DifferentResultsError, MissingPeerError) as error:
        return about | {"broken": str(error)}


if __name__ == "__main__":
    sys.exit(main())
