"""Requests to a cluster that may be unreachable for a while, and whose brokers do not learn of changes at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaException

from streamtopo.errors import LogError
from streamtopo.logs.kafka.errors import AWAY, error_of
from streamtopo.logs.kafka.settings import PATIENCE

ONCE = 10.0
"""Seconds for one request: a request that is lost when a broker stops may never be answered."""
PAUSE = 0.01
LAG = 2.0
"""Seconds after which a topic that one broker listed, and another does not, is taken to be deleted."""

T = TypeVar("T")


def answered(ask: Callable[[], T]) -> T:
    """Send a request, and repeat it while the cluster cannot be reached."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error_of(error).code() not in AWAY or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until the brokers have learned of what the controller did."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise LogError(f"the cluster did not do it within {PATIENCE:.0f} s; check that all its brokers are up")
        time.sleep(PAUSE)
