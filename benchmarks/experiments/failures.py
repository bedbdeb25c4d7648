"""What do records that fail cost, by where and how often they fail?"""

from __future__ import annotations

import logging
import time
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any

from benchmarks.experiment import Experiment, Observed
from benchmarks.places import Site
from benchmarks.processes import processes
from benchmarks.results import Results
from streamtopo import StreamsBuilder, Topology, Worker
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.stores.backends.memory import MemoryStore

IN, OUT = TopicPartition("events", 0), TopicPartition("sums", 0)
_TOO_MUCH = 10**15
BAD = {
    "decode": b"{",
    "map": b'{"text":"no number"}',
    "adder": b'{"n":-1}',
    "after the sums": b'{"n":%d}' % _TOO_MUCH,
}
"""A value on which each of them fails."""
_AT_ONCE = 10_000


def sums() -> Topology:
    builder = StreamsBuilder("sums")
    numbers = builder.stream("events", key=str, value=dict).map_values(lambda event: event["n"] + 1, value=int)
    numbers.group_by_key().aggregate(int, _add, value=int, name="sums").to_stream().map_values(_checked).to("sums")
    return builder.build()


def _add(key: str, number: int, total: int) -> int:
    if number <= 0:
        raise ValueError(f"{number} of {key}")
    return total + number


def _checked(total: int) -> int:
    if total >= _TOO_MUCH:
        raise ValueError(total)
    return total


def run(where: str, every: int, site: Site, records: int) -> Observed:
    """In a process of its own: the memory of one run would make the next one slower."""
    with processes(1) as pool:
        observed: Observed = pool.submit(work, where, every, records).result()
    return observed


def work(where: str, every: int, records: int) -> Observed:
    logging.getLogger("streamtopo").setLevel(logging.ERROR)
    log = MemoryLog()
    log.create(Topic("events", 1))
    log.create(Topic("sums", 1))
    fill(log, where, every, records)
    stores: dict[Any, MemoryStore] = {}
    worker = Worker(
        sums(), log, lambda specs, _: stores.setdefault(specs[0].name, MemoryStore()), on_error="dead_letter", cache=0
    )
    started = time.process_time()
    while worker.run_once():
        pass
    seconds = time.process_time() - started
    letters = worker.metrics().dead_letters
    worker.close()
    values = log.read(OUT, 0, 1 << 60).columns.values
    digest = sha256(b"".join(value or b"" for value in values)).hexdigest()
    return Observed(
        {"CPU us per record": seconds / records * 1e6, "dead letters": letters}, Results(len(values), digest)
    )


def fill(log: MemoryLog, where: str, every: int, records: int) -> None:
    """The bad ones come in addition to the others, whose results are the same in all runs."""
    numbers = count()
    while (first := next(numbers) * _AT_ONCE) < records:
        good = range(first, min(first + _AT_ONCE, records))
        rows = [(b"k%d" % (n % 1000), b'{"n":%d,"text":"some text"}' % n) for n in good]
        if where:
            rows = [row for n, one in zip(good, rows, strict=True) for row in _with_bad(one, n, where, every)]
        keys, values = (list(column) for column in zip(*rows, strict=True))
        log.append(IN, Columns(keys, values, [0] * len(rows)))


def _with_bad(row: tuple[bytes, bytes], number: int, where: str, every: int) -> list[tuple[bytes, bytes]]:
    return [row, (row[0], BAD[where])] if number % every == every // 2 else [row]


experiment = Experiment(
    "failures",
    "What do records that fail cost, by where and how often they fail?",
    1_000_000,
    {"none fails": partial(run, "", 0)}
    | {f"{where}, 1 in {every:,}": partial(run, where, every) for where in BAD for every in (10_000, 1_000, 100)},
)
