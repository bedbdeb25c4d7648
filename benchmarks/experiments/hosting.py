"""How does a hosted engine affect its service, and how fast can its stores be queried at the same time?"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import time
from urllib.parse import urlsplit

from benchmarks.data import repeating_users
from benchmarks.experiment import Experiment, Observed, percentile
from benchmarks.machine import ROOT
from benchmarks.places import Site
from benchmarks.processes import BrokenRunError, processes, until
from benchmarks.results import last_values
from benchmarks.watching import consumed, left, opened
from benchmarks.workloads.keyed_count import prepare, topology
from streamtopo import host
from streamtopo.hosting.app import AsyncApp
from streamtopo.hosting.queries.query import Query
from streamtopo.web.serving import Server

_SECONDS = 1.0
"""Of each of the three measurements."""
_CLIENTS = 8
_MOMENT = 0.01
_STEP = 0.001
"""Seconds for which the event loop is durations to sleep; its delay is the time beyond that."""
_KEY = str(repeating_users(1)[0])
_ANSWER = re.compile(rb"content-length: (\d+)\r\n(?:.+\r\n)*\r\n", re.IGNORECASE)

described = topology()


def at_full_load(site: Site, records: int) -> Observed:
    return hosted(site, records, pausing=False)


def at_half_load(site: Site, records: int) -> Observed:
    """The engine pauses every other 10 ms."""
    return hosted(site, records, pausing=True)


def in_a_process_of_its_own(site: Site, records: int) -> Observed:
    """At full load; queries are passed on to that process."""
    return hosted(site, records, pausing=False, engine="process")


def hosted(site: Site, records: int, *, pausing: bool, engine: str = "thread") -> Observed:
    with opened(site) as log:
        prepare(log, records)
    with processes(1) as service:
        measures = service.submit(serve, site, pausing, engine).result()
    return Observed(measures, left(site, last_values("counted")))


def serve(site: Site, pausing: bool, engine: str) -> dict[str, float]:
    os.chdir(ROOT)  # from where the process can import this module
    return asyncio.run(_serve(site, pausing, engine))


async def _serve(site: Site, pausing: bool, engine: str) -> dict[str, float]:
    async with host(f"{__name__}:described", site.url, engine=engine, state_dir=str(site.state)) as app:
        await app.ready("60s")
        measured = threading.Event()
        if pausing:
            threading.Thread(target=rest_half_of_the_time, args=(app, measured), daemon=True).start()
        began, before = time.monotonic(), records_of(app)
        delays = await delays_of_the_loop()
        durations = await asyncio.to_thread(questions, app.query("counts"))
        measures = {
            "loop delayed p50 ms": percentile(delays, 50),
            "loop delayed p99 ms": percentile(delays, 99),
            "query p50 us": percentile(durations, 50),
            "query p99 us": percentile(durations, 99),
        }
        measures |= await asyncio.to_thread(over_http, app)
        measures["records/s meanwhile"] = (records_of(app) - before) / (time.monotonic() - began)
        measured.set()
        await asyncio.to_thread(work_to_the_end, site)
    return measures


def records_of(app: AsyncApp) -> int:
    metrics = app.metrics()
    return metrics.records if metrics else 0


def work_to_the_end(site: Site) -> None:
    with opened(site) as log:
        until(lambda: consumed(log, ["keyed-count"], ["events"]), "the end of the work", lambda: None)


def rest_half_of_the_time(app: AsyncApp, measured: threading.Event) -> None:
    while not measured.wait(_MOMENT):
        app.pause()
        measured.wait(_MOMENT)
        app.resume()


async def delays_of_the_loop() -> list[float]:
    delays = []
    end = time.perf_counter() + _SECONDS
    while (began := time.perf_counter()) < end:
        await asyncio.sleep(_STEP)
        delays.append((time.perf_counter() - began - _STEP) * 1000)
    return delays


def questions(query: Query) -> list[float]:
    """Return the microseconds of queries with a short pause between them, as in a service."""
    taken = []
    end = time.perf_counter() + _SECONDS
    while (began := time.perf_counter()) < end:
        query.get(_KEY)
        taken.append((time.perf_counter() - began) * 1e6)
    return taken


def over_http(app: AsyncApp) -> dict[str, float]:
    """Query from another process, with several clients that keep their connections."""
    with Server(0) as server, processes(1) as pool:
        server.serve(app)
        taken = pool.submit(ask_over_http, server.address).result()
    return {
        "HTTP questions/s": len(taken) / _SECONDS,
        "HTTP p50 ms": percentile(taken, 50),
        "HTTP p99 ms": percentile(taken, 99),
    }


def ask_over_http(address: str) -> list[float]:
    taken: list[float] = []
    threads = [threading.Thread(target=_ask, args=(address, taken)) for _ in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


def _ask(address: str, taken: list[float]) -> None:
    """Query with as little code as possible, since the client shares the machine."""
    url = urlsplit(address)
    question = f"GET /stores/counts/{_KEY}?wait=5s HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode()
    with socket.create_connection((url.hostname, url.port)) as connection:
        end = time.perf_counter() + _SECONDS
        while (began := time.perf_counter()) < end:
            connection.sendall(question)
            check(_answer(connection))
            taken.append((time.perf_counter() - began) * 1000)


def _answer(connection: socket.socket) -> bytes:
    data = b""
    while not (head := _ANSWER.search(data)) or len(data) < head.end() + int(head[1]):
        data += connection.recv(1 << 16)
    return data


def check(answer: bytes) -> None:
    if b" 200 " not in answer[:20]:
        raise BrokenRunError(f"a query was answered with {answer[:200]!r}")


experiment = Experiment(
    "hosting",
    "How does a hosted engine affect its service, and how fast can its stores be queried at the same time?",
    4_000_000,
    {"at full load": at_full_load, "at half load": at_half_load, "in a process": in_a_process_of_its_own},
)
