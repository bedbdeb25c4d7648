"""Options for short-lived JVMs: optimising their code would take half of their time."""

from __future__ import annotations

import os

BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def start_quickly() -> None:
    """Set the options for brokers and Spark, also in other processes."""
    os.environ.setdefault("KAFKA_HEAP_OPTS", " ".join(["-Xms256M", "-Xmx1G", *BRIEF]))
    os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(BRIEF))
