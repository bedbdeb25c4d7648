"""What does a service notice of the engine that it hosts, and how fast are its stores asked meanwhile?"""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from urllib.parse import urlsplit

from benchmarks.experiment import Experiment, Observed, percentile
from benchmarks.places import Site
from benchmarks.processes import processes, until
from benchmarks.results import last_values
from benchmarks.watching import consumed, left, opened
from benchmarks.workloads.keyed_count import prepare, topology
from streamtopo import host
from streamtopo.hosting.app import AsyncApp
from streamtopo.hosting.query import Query
from streamtopo.web.serving import Server

_SECONDS = 1.0
"""For each of the three measurements."""
_CLIENTS = 8
_MOMENT = 0.01
_STEP = 0.001
"""Seconds that the loop is asked to wait; what it waits beyond that is its delay."""
_KEY = "user-1"


def at_full_load(site: Site, records: int) -> Observed:
    return hosted(site, records, pausing=False)


def at_half_load(site: Site, records: int) -> Observed:
    """The engine rests every other moment."""
    return hosted(site, records, pausing=True)


def hosted(site: Site, records: int, *, pausing: bool) -> Observed:
    with opened(site) as log:
        prepare(log, records)
    with processes(1) as service:
        measures = service.submit(serve, site, pausing).result()
    return Observed(measures, left(site, last_values("counted")))


def serve(site: Site, pausing: bool) -> dict[str, float]:
    return asyncio.run(_serve(site, pausing))


async def _serve(site: Site, pausing: bool) -> dict[str, float]:
    async with host(topology(), site.url, state_dir=str(site.state)) as app:
        await app.ready("60s")
        measured = threading.Event()
        if pausing:
            threading.Thread(target=rest_half_of_the_time, args=(app, measured), daemon=True).start()
        began, before = time.monotonic(), records_of(app)
        delays = await delays_of_the_loop()
        asked = await asyncio.to_thread(questions, app.query("counts"))
        measures = {
            "loop delayed p50 ms": percentile(delays, 50),
            "loop delayed p99 ms": percentile(delays, 99),
            "query p50 us": percentile(asked, 50),
            "query p99 us": percentile(asked, 99),
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
    """Microseconds, each asked a moment after the other, as a service would."""
    taken = []
    end = time.perf_counter() + _SECONDS
    while (began := time.perf_counter()) < end:
        query.get(_KEY)
        taken.append((time.perf_counter() - began) * 1e6)
    return taken


def over_http(app: AsyncApp) -> dict[str, float]:
    """Clients in another process, each with a connection that it keeps."""
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
    url = urlsplit(address)
    connection = http.client.HTTPConnection(url.hostname or "", url.port)
    end = time.perf_counter() + _SECONDS
    while (began := time.perf_counter()) < end:
        connection.request("GET", f"/stores/counts/{_KEY}?wait=5s")
        connection.getresponse().read()
        taken.append((time.perf_counter() - began) * 1000)
    connection.close()


experiment = Experiment(
    "hosting",
    "What does a service notice of the engine that it hosts, and how fast are its stores asked meanwhile?",
    4_000_000,
    {"at full load": at_full_load, "at half load": at_half_load},
)
