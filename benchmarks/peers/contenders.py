"""The contenders: each with its guarantee, its settings, the workloads it can run, and its command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.environments import HERE, kafka_streams, python_of
from benchmarks.peers.workloads import WORKLOADS, Workload

EXACTLY, AT_LEAST = "exactly once", "at least once"
EVERY = frozenset(name for name, workload in WORKLOADS.items() if not workload.backlog)
AND_BACKLOG = frozenset(WORKLOADS)


class Job(NamedTuple):
    """The input for a contender's command."""

    workload: Workload
    brokers: str
    state: Path
    commit_at: tuple[int, ...]
    """Numbers of records after which all output must be committed."""


@dataclass(frozen=True)
class Contender:
    peer: str
    guarantee: str
    settings: str
    command: Callable[[Job], list[str]]
    workloads: Collection[str] = EVERY
    share: float = 1.0
    """The share of the others' records: slow contenders would take hours."""
    commits: bool = True
    """Whether its group commits positions after their results; otherwise its output shows its progress."""
    adds: Collection[str] = ()
    """Fields of its own in JSON that it writes."""
    reports_late: bool = True
    """Whether it says at its end how many records it dropped as late, in a backlog."""

    @property
    def name(self) -> str:
        return ", ".join(filter(None, (self.peer, self.guarantee, self.settings)))


# -- streamtopo


def ours(guarantee: str, *settings: str) -> Callable[[Job], list[str]]:
    def command(job: Job) -> list[str]:
        app = {"every-update": "keyed-count", "restore": "keyed-count"}.get(job.workload.name, job.workload.name)
        options = ["--log", f"kafka://{job.brokers}", "--state-dir", str(job.state), "--guarantee", guarantee]
        options += ["--cache", "0"] if job.workload.name == "every-update" else []
        place = f"benchmarks.peers.programs.ours:{app.replace('-', '_')}"
        return [sys.executable, "-m", "streamtopo", "worker", place, *options, *settings]

    return command


# -- the client alone


def raw(guarantee: str) -> Callable[[Job], list[str]]:
    def command(job: Job) -> list[str]:
        workload = job.workload
        names = [workload.name, job.brokers, workload.application, workload.input, workload.output, guarantee]
        return [sys.executable, "-m", "benchmarks.peers.programs.raw", *names]

    return command


# -- Kafka Streams

_EXACTLY = {"processing.guarantee": "exactly_once_v2"}
_TUNED = {
    "commit.interval.ms": "100",
    "buffered.records.per.partition": "10000",
    "main.consumer.max.poll.records": "10000",
    "producer.linger.ms": "5",
    "producer.compression.type": "lz4",
}
_SOONER = {"commit.interval.ms": "10", "producer.linger.ms": "5"}
_TWO = {"num.stream.threads": "2"}


def streams(*several: Mapping[str, str]) -> Callable[[Job], list[str]]:
    def command(job: Job) -> list[str]:
        options = {"bootstrap.servers": job.brokers, "state.dir": str(job.state)}
        options |= {"statestore.cache.max.bytes": "0"} if job.workload.name == "every-update" else {}
        for given in several:
            options |= given
        arguments = [job.workload.name, job.workload.application, ",".join(map(str, job.commit_at))]
        return [*kafka_streams(), *arguments, *(f"{name}={value}" for name, value in options.items())]

    return command


# -- Python stream processors


def python(peer: str, *options: str) -> Callable[[Job], list[str]]:
    def command(job: Job) -> list[str]:
        program = str(HERE / "programs" / f"on_{peer}.py")
        names = [job.workload.name, job.brokers, job.workload.application, str(job.state)]
        return [python_of(peer), program, *names, *options]

    return command


def pathway(settings: str, workloads: Collection[str], *options: str) -> Contender:
    program = python("pathway", *(options or ("100",)))
    adds = "diff", "key", "time"
    return Contender("Pathway", AT_LEAST, settings, program, workloads, commits=False, adds=adds, reports_late=False)


_ON_FAUST = ("map-filter", "keyed-count", "every-update", "tumbling-count", "backlog", "latency")
_ON_PATHWAY = ("map-filter", "keyed-count", "tumbling-count", "word-count")
_ON_BYTEWAX = ("map-filter", "keyed-count", "every-update", "word-count", "backlog", "latency")
_ALONE = ("map-filter", "keyed-count", "every-update", "latency")


def contenders() -> Iterator[Contender]:
    for guarantee in (EXACTLY, AT_LEAST):
        done = AND_BACKLOG if guarantee == EXACTLY else EVERY
        yield Contender("streamtopo", guarantee, "", ours(guarantee.replace(" ", "-")), done)
    yield Contender("streamtopo", EXACTLY, "2 processes", ours("exactly-once", "--processes", "2"), ["backlog"])
    seldom = ours("at-least-once", "--commit-interval", "1s")
    yield Contender("streamtopo", AT_LEAST, "commits each second", seldom, EVERY - {"latency", "restore"})
    for guarantee in (EXACTLY, AT_LEAST):
        yield Contender("client alone", guarantee, "", raw(guarantee.replace(" ", "-")), _ALONE)
    for guarantee, given, done in ((EXACTLY, _EXACTLY, AND_BACKLOG), (AT_LEAST, {}, EVERY - {"restore"})):
        yield Contender("Kafka Streams", guarantee, "defaults", streams(given), done)
        yield Contender("Kafka Streams", guarantee, "tuned", streams(given, _TUNED), done)
    yield Contender("Kafka Streams", EXACTLY, "commits each 10 ms", streams(_EXACTLY, _SOONER), ["latency"])
    yield Contender("Kafka Streams", EXACTLY, "defaults, 2 threads", streams(_EXACTLY, _TWO), ["backlog"])
    for guarantee, done in ((EXACTLY, AND_BACKLOG), (AT_LEAST, EVERY)):
        yield Contender("Quix Streams", guarantee, "", python("quix", guarantee.replace(" ", "-")), done, share=0.1)
    yield Contender("Faust", AT_LEAST, "", python("faust"), _ON_FAUST, share=0.02, reports_late=False)
    yield pathway("", _ON_PATHWAY)
    yield pathway("each 100 ms", ["latency"])
    yield pathway("each 20 ms", ["latency"], "20")
    yield pathway("cutoff", ["backlog"], "100", "cutoff")
    yield pathway("no cutoff", ["backlog"])
    yield Contender("Bytewax", AT_LEAST, "", python("bytewax", "10"), _ON_BYTEWAX, share=0.1, commits=False)
