"""`pytest -n auto`: which tests run in the same process, and how many processes there are."""

from __future__ import annotations

import os
from typing import Any

MOST_CORES = 5
"""With more, the tests of one broker take longest."""
KAFKA, SPARK = "Kafka", "Spark"
OWN_BROKER = ("tests/kafka/faults/", "tests/kafka/test_security.py", "tests/broker/")
"""These start their own brokers."""
WITH_BROKER = ("tests/kafka/", "tests/benchmarks/test_peers.py", "tests/benchmarks/test_rebalancing.py")


def processes() -> int:
    """Return one more than there are cores: tests that wait for Kafka leave their core to others."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_CORES) + 1


def scope(test: str) -> str:
    """Tests with the same scope run in one process: those that share a broker, those that share a Spark, or a file."""
    file, _, name = test.partition("::")
    if file.startswith(OWN_BROKER):
        return file
    if file.startswith(WITH_BROKER) or (file.startswith("tests/logs/") and "[kafka" in name):
        return KAFKA
    return SPARK if file.startswith("tests/spark/") else file


def scheduler(config: Any, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    by_shared_resources = type("BySharedResources", (LoadScopeScheduling,), {"_split_scope": staticmethod(scope)})
    return by_shared_resources(config, log)
