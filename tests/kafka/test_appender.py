"""Records appended under a number are written once, even if writers were killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from streamtopo.errors import LogError
from streamtopo.logs import Topic
from streamtopo.logs.kafka import KafkaLog
from streamtopo.logs.kafka.appender import NUMBERS
from streamtopo.records import Columns, TopicPartition
from tests.kafka.appending import append
from tests.kafka.brokers import emptied
from tests.logs.records import T0, T1, rows, values
from tests.long import long

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).parents[2]


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    log = emptied(kafka)
    log.create(Topic("t", 2))
    yield log
    log.close()


@pytest.fixture
def name() -> str:
    """Return a new name: numbers are kept when a topic is deleted."""
    return uuid.uuid4().hex


def killed(kafka: str, name: str, number: int, when: str) -> bool:
    command = [sys.executable, "-m", "tests.kafka.appending", kafka, name, str(number), when]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert child.returncode in (0, -signal.SIGKILL), child.stderr
    return child.returncode != 0


def test_a_number_is_appended_once(log: KafkaLog, name: str) -> None:
    with closing(log.appender(name)) as one, closing(log.appender(f"{name}-two")) as two:
        assert one.append([(T0, rows(b"a", b"b")), (T1, rows(b"c"))], 3)
        assert not one.append([(T0, rows(b"again"))], 3)
        assert two.append([(T0, rows(b"d"))], 1)
    with closing(log.appender(name)) as one:
        assert one.number() == 3
        assert not one.append([(T0, rows(b"older"))], 2)
        assert one.append([(T0, rows(b"e"))], 4)
    assert (values(log), values(log, T1)) == ([b"a", b"b", b"d", b"e"], [b"c"])


def test_a_failed_append_writes_nothing(log: KafkaLog, name: str) -> None:
    # The client refuses it at once, or at delivery if it does not know the number of partitions yet.
    with closing(log.appender(name)) as appender, pytest.raises(LogError, match=r"written to .*t/7"):
        appender.append([(T0, rows(b"a")), (T1._replace(partition=7), rows(b"b"))], 1)
    with closing(log.appender(name)) as appender:
        assert appender.number() == 0
        assert appender.append([(T0, rows(b"c"))], 1)
    assert values(log) == [b"c"]


def test_an_older_appender_of_the_same_name_writes_nothing_more(log: KafkaLog, name: str) -> None:
    with closing(log.appender(name)) as older:
        assert append(log, name, 1)
        assert not older.append([(T0, rows(b"again"))], 1)
    with closing(log.appender(name)) as older:
        assert append(log, name, 2)
        with pytest.raises(LogError, match="in one transaction"):
            older.append([(T0, rows(b"older"))], 3)
    assert values(log) == [b"1", b"1", b"2", b"2"]


def test_the_number_waits_for_open_transactions_of_others(log: KafkaLog, name: str) -> None:
    with closing(log.appender(f"{name}-dead")) as dead, closing(log.appender(name)) as mine:

        def records() -> Iterator[tuple[TopicPartition, Columns]]:
            dead._transactions.send(NUMBERS, rows(b"1", key=b"dead"))
            dead._transactions._producer.flush()
            yield T0, rows(b"a")

        assert mine.append(records(), 5)
        with ThreadPoolExecutor() as pool:
            number = pool.submit(mine.number)
            log.appender(f"{name}-dead").close()  # this ends the open transaction
            assert number.result() == 5


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_append_is_repeated(log: KafkaLog, kafka: str, name: str, when: str) -> None:
    append(log, name, 1)
    assert killed(kafka, name, 2, when)
    assert append(log, name, 2) == (when == "before")
    assert (values(log), values(log, T1)) == ([b"1", b"1", b"2", b"2"], [b"1", b"2"])


@long
def test_forty_kills(log: KafkaLog, kafka: str, name: str) -> None:
    dice, kills, number = random.Random(os.environ.get("STREAMTOPO_SEED", 1)), 0, 1
    while kills < 40:
        kills += killed(kafka, name, number, str(dice.uniform(0, 0.3)))
        with closing(log.appender(name)) as appender:
            there = appender.number()
        assert there in (number - 1, number)
        number = there + 1
    expected = [b"%d" % n for n in range(1, number) for _ in range(2)]
    assert (values(log), values(log, T1)) == (expected, expected[::2])
