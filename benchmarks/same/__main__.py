"""python -m benchmarks.same [live] [APPLICATION …] [LIBRARY …]: each is run on a broker of its own, and judged.

All input is there before a program starts; with `live` it comes while it runs, a thousand records a second.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.peers.environments import kafka_streams, python_of
from benchmarks.same.inputs import APPLICATIONS, PARTITIONS, Application, Got
from streamtopo.broker import Cluster
from streamtopo.logs import Topic
from streamtopo.logs.opening import open_log

PROGRAMS = Path(__file__).parent / "programs"
LIBRARIES = {"streamtopo": ".py", "faust": ".py", "quix": ".py", "bytewax": ".py", "kafka_streams": ".java"}
QUIET, LONGEST = 12.0, 150.0
"""Seconds: a run is over when no result has come for this long."""
READY, RATE = 30.0, 1000
"""Live: seconds until a program is surely in its group, and records a second."""


def main(chosen: list[str]) -> None:
    for name in [name for name in APPLICATIONS if name in chosen] or APPLICATIONS:
        for library in [library for library in LIBRARIES if library in chosen] or LIBRARIES:
            results, output = run(name, APPLICATIONS[name], library, live="live" in chosen)
            said = "".join(f"\n    {line}" for line in output.splitlines()[-3:])
            last = "".join(f"\n    {row.topic} {row.key} {json.dumps(row.value)}" for row in results[-2:])
            print(f"{name} {library}: {APPLICATIONS[name].judge(results)}{last}{said}", flush=True)


def run(name: str, application: Application, library: str, *, live: bool) -> tuple[list[Got], str]:
    """Return the results, and what the program has printed."""
    with tempfile.TemporaryDirectory() as scratch, broker(Path(scratch) / "broker") as address:
        for topic in application.topics:
            open_log(f"kafka://{address}").create(Topic(topic, PARTITIONS))
        if not live:
            feed(address, application)
        with (Path(scratch) / "output").open("w+") as output:
            process = start(name, library, address, Path(scratch), output.fileno())
            if live:
                time.sleep(READY)
                feed(address, application, RATE)
            wait(process, address, application)
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
            output.seek(0)
            return list(read(address, application)), output.read()


@contextmanager
def broker(directory: Path) -> Iterator[str]:
    cluster = Cluster(directory)
    yield cluster.up(port=0, config={"log.retention.ms": "-1"})
    cluster.down()


def feed(address: str, application: Application, rate: int = 0) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number, (topic, partition, key, value, timestamp) in enumerate(application.feed(), 1):
        producer.produce(topic, value, key, partition, timestamp=timestamp)
        producer.poll(0)
        if rate and number % (rate // 20) == 0:
            time.sleep(1 / 20)
    producer.flush()


def start(name: str, library: str, address: str, scratch: Path, output: int) -> subprocess.Popen[bytes]:
    """Start the program as it is in `programs`, but for the address of the broker."""
    file = (name if library != "kafka_streams" else name.title()) + LIBRARIES[library]
    (scratch / file).write_text((PROGRAMS / library / file).read_text().replace("localhost:9092", address))
    command = {
        "streamtopo": [sys.executable, "-m", "streamtopo", "worker", name, "--log", f"kafka://{address}"],
        "faust": ["-m", "faust", "-A", name, "--datadir", str(scratch), "worker", "--without-web", "-l", "error"],
        "quix": [file],
        "bytewax": ["-m", "bytewax.run", name],
        "kafka_streams": [file],
    }[library]
    if library == "kafka_streams":
        command = [kafka_streams()[0], f"-Djava.io.tmpdir={scratch}", *kafka_streams()[1:-1], *command]
    elif library != "streamtopo":
        command = [python_of(library), *command]
    environment = os.environ | {"PYTHONPATH": str(scratch), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, cwd=scratch, env=environment, stdout=output, stderr=output)


def wait(process: subprocess.Popen[bytes], address: str, application: Application) -> None:
    """Wait until there are results and no more come."""
    begun = changed = time.monotonic()
    seen = 0
    while time.monotonic() - begun < LONGEST and process.poll() is None:
        time.sleep(0.5)
        there = sum(end for _, end in ends(address, application))
        if there != seen or there == 0:
            seen, changed = there, time.monotonic()
        elif time.monotonic() - changed > QUIET:
            return


def ends(address: str, application: Application) -> list[tuple[TopicPartition, int]]:
    sources = {fed.topic for fed in application.feed()}
    consumer = Consumer({"bootstrap.servers": address, "group.id": "ends", "isolation.level": "read_committed"})
    topics = [topic for topic in application.topics if topic not in sources]
    parts = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
    found = [(part, consumer.get_watermark_offsets(part, timeout=30)[1]) for part in parts]
    consumer.close()
    return found


def read(address: str, application: Application) -> Iterator[Got]:
    settings = {"group.id": "read", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": address, **settings})
    parts = [TopicPartition(part.topic, part.partition, 0) for part, _ in ends(address, application)]
    consumer.assign(parts)
    left = len(parts)
    while left:
        message = consumer.poll(30)
        if message is None or message.error():
            left -= 1
        else:
            key = (message.key() or b"").decode().strip('"')
            yield Got(message.topic() or "", key, decoded(message.value() or b""))
    consumer.close()


def decoded(value: bytes) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return int.from_bytes(value, "big")


if __name__ == "__main__":
    if not shutil.which("java"):
        sys.exit("the broker needs Java 17")
    main(sys.argv[1:])
