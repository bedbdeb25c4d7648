"""Is Faust on the embedded log as fast as Faust on Kafka? python -m benchmarks.faust_brokers kafka://localhost:9092"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from statistics import median
from typing import Any

PATIENCE = 300


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faust_brokers", description=__doc__)
    parser.add_argument("broker", metavar="URL", help="a running broker, such as that of `streamtopo broker up`")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5, help="runs of each side, in turn (default 5)")
    options = parser.parse_args()
    rates: dict[str, list[float]] = {}
    for turn in range(options.runs):
        with tempfile.TemporaryDirectory() as directory:
            sides = {"embedded log": f"streamtopo://{directory}/log", "kafka": options.broker}
            found = {side: run(url, Path(directory) / side, options.records) for side, url in sides.items()}
        if found["embedded log"]["rows"] != found["kafka"]["rows"]:
            print("the tables differ: nothing was measured", file=sys.stderr)
            return 1
        for side in sides:
            for what in ("filled", "counted"):
                rates.setdefault(f"{what} on {side}", []).append(found[side][what])
        print(turn + 1, {name: round(each[-1]) for name, each in rates.items()}, file=sys.stderr)
    for name, each in sorted(rates.items()):
        print(f"{name}: {median(each):,.0f} records/s (median of {options.runs}; {min(each):,.0f} to {max(each):,.0f})")
    return 0


def run(broker: str, place: Path, records: int) -> dict[str, Any]:
    place.mkdir()
    environment = {
        **os.environ,
        "BENCH_BROKER": broker,
        "BENCH_NAME": f"bench-{uuid.uuid4().hex[:8]}",
        "BENCH_RECORDS": str(records),
        "BENCH_DATA": str(place / "data"),
        "BENCH_REPORT": str(place / "report"),
    }
    for command in (["fill"], ["worker", "--without-web", "-l", "error"]):
        with (place / "output").open("a") as output:
            subprocess.run(
                [sys.executable, "-m", "faust", "-A", "benchmarks.faust_app", *command],
                env=environment,
                stdout=output,
                stderr=output,
                timeout=PATIENCE,
                check=True,
            )
    lines = [json.loads(line) for line in (place / "report").read_text().splitlines()]
    rows = dict(lines[-1]["rows"])
    assert sum(rows.values()) == records, (place / "output").read_text()
    return {"rows": rows, **{line["what"]: line["records/s"] for line in lines}}


if __name__ == "__main__":
    sys.exit(main())
