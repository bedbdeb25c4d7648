"""All experiments by name; each file is one question."""

from __future__ import annotations

from benchmarks.experiment import Experiment
from benchmarks.experiments import (
    cleaning,
    closing,
    closing_on_kafka,
    dead_letters,
    failures,
    hosting,
    latency,
    memory,
    moving,
    open_sessions,
    reading,
    two_processes,
)

_FILES = (
    latency,
    closing,
    closing_on_kafka,
    hosting,
    reading,
    two_processes,
    memory,
    open_sessions,
    cleaning,
    moving,
    dead_letters,
    failures,
)
EXPERIMENTS: dict[str, Experiment] = {file.experiment.name: file.experiment for file in _FILES}
