"""All experiments by name; each file is one question."""

from __future__ import annotations

from benchmarks.experiment import Experiment
from benchmarks.experiments import (
    cleaning,
    dead_letters,
    hosting,
    latency,
    memory,
    moving,
    open_sessions,
    reading,
    two_processes,
)

_FILES = (latency, hosting, reading, two_processes, memory, open_sessions, cleaning, moving, dead_letters)
EXPERIMENTS: dict[str, Experiment] = {file.experiment.name: file.experiment for file in _FILES}
