"""How a worker process of a pool is called: `streamtopo worker` with all of its options."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any

from streamtopo.config import DURATIONS, WorkerConfig


def command(app: str, config: WorkerConfig, lifeline: int, more: Sequence[str] = ()) -> list[str]:
    """All options are given, here or by `environment`, so pyproject.toml is not used."""
    return [
        *(sys.executable, "-m", "streamtopo", "worker", app),
        *(option for field in fields(config) for option in _option(field.name, getattr(config, field.name))),
        *more,
        *("--lifeline", str(lifeline)),
    ]


def environment(log: str, token: str | None) -> dict[str, str]:
    """What is not passed as an argument, because all users of the machine can read those: it may hold passwords."""
    return {"STREAMTOPO_LOG": log, "STREAMTOPO_WEB_TOKEN": token or ""}


def _option(name: str, value: Any) -> Iterator[str]:
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        yield from [flag] if value else []
    elif isinstance(value, Enum):
        yield f"{flag}={value.value}"
    elif value is None:
        yield f"{flag}=none"
    else:
        yield f"{flag}={value}{'ms' if name in DURATIONS else ''}"
