"""python -m benchmarks.compare A B: compare two saved results; fail if an engine's rate fell by more than a tenth."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

LEAST = 0.9

Results = dict[tuple[str, str, int], dict[str, Any]]
"""The last line of each workload, log and number of records."""


class Row(NamedTuple):
    name: str
    engine: float
    """B's rate divided by A's."""
    ratio: float
    """The same for their ratios to the bare loop, which hardly depend on the machine's speed."""


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m benchmarks.compare A.jsonl B.jsonl", file=sys.stderr)
        return 2
    before, after = (load(Path(name)) for name in arguments)
    rows = compare(before, after)
    if not rows:
        print("the two files have no workload in common (with the same log and number of records)", file=sys.stderr)
        return 2
    _print(rows, before, after)
    return 1 if any(row.engine < LEAST for row in rows) else 0


def load(file: Path) -> Results:
    lines = map(json.loads, filter(str.strip, file.read_text().splitlines()))
    rates = [line for line in lines if "workload" in line]  # experiments have several figures: compare them by hand
    return {(line["workload"], line["log"].partition(":")[0], line["records"]): line for line in rates}


def compare(before: Results, after: Results) -> list[Row]:
    return [
        Row(
            f"{key[0]} on {key[1]}:, {key[2]:,} records",
            after[key]["engine"] / line["engine"],
            after[key]["ratio"] / line["ratio"],
        )
        for key, line in before.items()
        if key in after
    ]


def _print(rows: Sequence[Row], before: Results, after: Results) -> None:
    width = max(len(row.name) for row in rows)
    print(f"{'B / A'.ljust(width)}  engine  to bare loop")
    for name, engine, ratio in rows:
        print(f"{name.ljust(width)}  {engine:6.2f}  {ratio:12.2f}{'  too slow' if engine < LEAST else ''}")
    for key in before.keys() ^ after.keys():
        print(f"{key[0]}: only in {'A' if key in before else 'B'}")
    if len({json.dumps(line["machine"]) for line in [*before.values(), *after.values()]}) > 1:
        print("the machines differ, so only the last column is about the code")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
