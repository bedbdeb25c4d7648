"""How a worker process of a pool is called: `streamtopo worker` with all of its options."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any

from streamtopo.config import WorkerConfig

_DURATIONS = {"commit_interval", "commit_pause", "idle_advance"}
_TOKEN = "STREAMTOPO_WEB_TOKEN"


def command(app: str, log: str, config: WorkerConfig, lifeline: int, more: Sequence[str] = ()) -> list[str]:
    """All options are given, so that the environment and pyproject.toml have no say any more."""
    return [
        *(sys.executable, "-m", "streamtopo", "worker", app, "--log", log),
        *(option for field in fields(config) for option in _option(field.name, getattr(config, field.name))),
        *more,
        *("--lifeline", str(lifeline)),
    ]


def web_arguments(port: int, host: str, token: str | None) -> list[str]:
    """The token is no argument, which all users of the machine could read."""
    if token is not None:
        os.environ[_TOKEN] = token
    return ["--web-port", str(port), "--web-host", host]


def _option(name: str, value: Any) -> Iterator[str]:
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        yield from [flag] if value else []
    elif isinstance(value, Enum):
        yield f"{flag}={value.value}"
    else:
        yield f"{flag}={value}{'ms' if name in _DURATIONS else ''}"
