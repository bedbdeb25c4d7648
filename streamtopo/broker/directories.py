"""Where brokers and their jars are stored: in the data and cache directories of the user."""

from __future__ import annotations

import os
from pathlib import Path


def default_directory() -> Path:
    return _user("XDG_DATA_HOME", ".local/share") / "broker"


def cache_directory() -> Path:
    return _user("XDG_CACHE_HOME", ".cache")


def _user(variable: str, fallback: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / fallback) / "streamtopo"
