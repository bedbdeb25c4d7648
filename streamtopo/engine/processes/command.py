"""The command of a worker process in a pool: `streamtopo worker` with all its options."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from streamtopo.settings.config import OPTIONS, WorkerConfig


def command(app: str, config: WorkerConfig, lifeline: int, more: Sequence[str] = ()) -> list[str]:
    """Gives all options, here or in `environment`, so that pyproject.toml is not used."""
    return [
        *(sys.executable, "-m", "streamtopo", "worker", app),
        *(option for name in OPTIONS for option in _option(name, getattr(config, name))),
        *more,
        *("--lifeline", str(lifeline)),
    ]


def environment(log: str, token: str | None) -> dict[str, str]:
    """What may contain passwords: all users of the machine can read the arguments of a process."""
    return {"STREAMTOPO_LOG": log, "STREAMTOPO_WEB_TOKEN": token or ""}


def _option(name: str, value: Any) -> Iterator[str]:
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        yield from [option] if value else []
    else:
        yield f"{option}={OPTIONS[name].written(value)}"
