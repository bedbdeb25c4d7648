"""python -m benchmarks.spark_rollup: how does the cost of a rollup grow with records, cores and new records?"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import create, events, fill, repeating_users
from benchmarks.machine import commit, load, this_machine
from benchmarks.processes import in_a_process, watched
from benchmarks.spark import Event
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.spark import rollup
from streamtopo.spark.rollups.rollups import Done, Run
from streamtopo.spark.session import open_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@rollup("by-user", every="1 hour", keys=["user"], topic="events", value=Event, merge={"n": "sum", "amount": "sum"})
def by_user(found: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return found.groupBy("hour", "user").agg(F.count("*").alias("n"), F.sum("amount").alias("amount"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_rollup")
    parser.add_argument("--records", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument(
        "--cores", type=int, nargs="+", default=[2, 1], help="each number runs the largest log; the first runs all"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        logs = {records: Path(directory) / str(records) for records in sorted(options.records)}
        for records, path in logs.items():
            in_a_process(add, path, records)
        print("| cores | records | seconds | with 1 % more | MB |\n|--:|--:|--:|--:|--:|", flush=True)
        for cores in options.cores:
            chosen = logs if cores == options.cores[0] else dict([max(logs.items())])
            spark = open_spark("benchmark", master=f"local[{cores}]", settings={"spark.ui.enabled": "false"})
            with spark as session, watched() as most:
                list(Run(session, by_user, f"embedded:{min(logs.items())[1]}", f"{directory}/warm-{cores}").commits())
                for records, path in chosen.items():
                    run = Run(session, by_user, f"embedded:{path}", f"{directory}/out-{cores}-{records}")
                    first = done(run, None if cores == options.cores[0] else records + records // 100)
                    memory, news = most(), ""
                    if cores == options.cores[0]:
                        in_a_process(add, path, records // 100)
                        news = f"{done(run, records // 100).seconds:.1f}"
                    print(f"| {cores} | {first.records:,} | {first.seconds:.1f} | {news} | {memory:,.0f} |", flush=True)
    machine = this_machine()
    print(f"\n{machine.cpu}, {machine.cores} cores, Python {machine.python}, commit {commit()}, load {load()}")


def add(path: Path, records: int) -> None:
    with closing(EmbeddedLog(path, synchronous="normal")) as log:
        create(log, "events")
        fill(log, "events", events(repeating_users(records)))


def done(run: Run, records: int | None) -> Done:
    (found,) = run.commits()
    assert records is None or found.records == records, found
    return found


if __name__ == "__main__":
    main()
