"""Directories of logs and state that only their user can open."""

from __future__ import annotations

from pathlib import Path


def make_private(path: Path) -> None:
    """Create this directory and missing parents for this user alone; existing directories are not changed."""
    if not path.is_dir():
        make_private(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
