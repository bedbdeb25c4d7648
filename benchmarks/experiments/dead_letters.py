"""How long does `streamtopo dlq list` take, by how many letters each commit wrote?"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from functools import partial
from hashlib import sha256

from benchmarks.experiment import Experiment, Observed
from benchmarks.places import Site
from benchmarks.results import Results
from benchmarks.watching import opened
from streamtopo.dead_letters import headers as names
from streamtopo.logs import Log, Topic
from streamtopo.records import Columns, Headers, TopicPartition

TOPIC, PARTITIONS = "dlq.orders", 4
_FRAME = (
    '  File "/srv/orders/steps.py", line {}, in step_{}\n    return convert(value["amount"], at=record.timestamp)\n'
)
_TRACEBACK = "Traceback (most recent call last):\n" + "".join(_FRAME.format(30 + depth, depth) for depth in range(12))
_EXCEPTIONS = ("ValueError", "KeyError", "orders.errors.BadCurrency")


def list_letters(at_once: int, site: Site, records: int) -> Observed:
    with opened(site) as log:
        write(log, records, at_once)
        size = (site.directory / "log" / "log.db").stat().st_size
    command = ["dlq", "list", "-", "--dead-letter-topic", TOPIC, "--log", site.url, "--json", "--max", "0"]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    answer = subprocess.run([sys.executable, "-m", "streamtopo", *command], stdout=subprocess.PIPE, check=True).stdout
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    measures = {
        "seconds": seconds,
        "CPU seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "bytes per letter": size / records,
    }
    listed = json.loads(answer)
    counts = sorted((count["exception"], count["letters"]) for count in listed["counts"])
    return Observed(measures, Results(listed["letters"], sha256(repr(counts).encode()).hexdigest()))


def write(log: Log, records: int, at_once: int) -> None:
    """Each partition gets every fourth letter."""
    log.create(Topic(TOPIC, PARTITIONS))
    for turn, start in enumerate(range(0, records, at_once)):
        numbers = range(start, min(start + at_once, records))
        columns = Columns(
            [b"customer-%d" % (number % 1000) for number in numbers],
            [b'{"amount": "n/a", "id": %d}' % number for number in numbers],
            [1_700_000_000_000 + number for number in numbers],
            [failure(number) for number in numbers],
        )
        log.append(TopicPartition(TOPIC, turn % PARTITIONS), columns)


def failure(number: int) -> Headers:
    exception = _EXCEPTIONS[number % 3]
    texts = {
        names.EXCEPTION: exception,
        names.MESSAGE: f"invalid amount 'n/a' of order {number}",
        names.STACKTRACE: f"{_TRACEBACK}{exception}: invalid amount 'n/a' of order {number}",
        names.TOPIC: "orders",
        names.PARTITION: str(number % PARTITIONS),
        names.OFFSET: str(number),
        names.NODE: f"KSTREAM-MAPVALUES-000000000{number % 2}",
        names.STAGE: "step",
        names.TASK: f"0_{number % PARTITIONS}",
        names.APPLICATION: "orders",
        names.ATTEMPTS: "1",
    }
    return tuple((name, text.encode()) for name, text in texts.items())


experiment = Experiment(
    "dead-letters",
    "How long does `streamtopo dlq list` take, by how many letters each commit wrote?",
    1_000_000,
    {f"{at_once:,} at once": partial(list_letters, at_once) for at_once in (10_000, 1_000, 100)},
)
