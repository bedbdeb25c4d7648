"""Directories of logs and state, which only their user can open."""

from __future__ import annotations

from pathlib import Path


def make_private(path: Path) -> None:
    """Make this directory, and the parents that are missing, for this user alone; those that exist stay as they are."""
    if not path.is_dir():
        make_private(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
