"""One measured run of one side, in a fresh process pinned to one core."""

from __future__ import annotations

import gc
import os
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Literal, NamedTuple

from benchmarks.engine import Side
from benchmarks.places import Place, fresh_place
from benchmarks.results import Results
from benchmarks.workloads import WORKLOADS

WARM_UP = 20_000
"""The most records that are processed by the same code before the clock starts."""


@dataclass(frozen=True)
class Request:
    workload: str
    side: Literal["engine", "bare"]
    log: str
    records: int


class Measured(NamedTuple):
    seconds: float
    cpu_seconds: float
    """Less than `seconds` if the core was shared with others, or the log waited for the disk."""
    results: Results


def measure(request: Request) -> Measured:
    """Run in a fresh process, so that no run finds another's data in memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure_here, request).result()


def _measure_here(request: Request) -> Measured:
    pin()
    warm_up(request)
    return execute(request)


def pin() -> None:
    """Stay on one core, with all threads started later."""
    with suppress(AttributeError, OSError):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def warm_up(request: Request) -> None:
    execute(replace(request, records=min(request.records, WARM_UP)))


def execute(request: Request, watching: AbstractContextManager[object] | None = None) -> Measured:
    """Fill a fresh log, let one side do the job, and read its results; `watching` covers the job only."""
    workload = WORKLOADS[request.workload]
    with fresh_place(request.log) as place:
        workload.prepare(place.log, request.records)
        settle_garbage()
        with watching or nullcontext():
            seconds, cpu_seconds = timed(workload.engine if request.side == "engine" else workload.bare, place)
        return Measured(seconds, cpu_seconds, workload.results(place))


def timed(side: Side, place: Place) -> tuple[float, float]:
    """Return the seconds by the clock, and of CPU time."""
    started, cpu_started = time.perf_counter(), time.process_time()
    side(place)
    return time.perf_counter() - started, time.process_time() - cpu_started


def settle_garbage() -> None:
    """Set up the garbage collector as a worker does: existing objects are exempt, and it runs rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
