"""Directories for what is in records and state: only their user may look into them."""

from __future__ import annotations

from pathlib import Path


def make_private(path: Path) -> None:
    """Make this directory, and the parents that are missing, for this user alone; what is there stays as it is."""
    if not path.is_dir():
        make_private(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
