"""A separate PostgreSQL server, if its programs are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@contextmanager
def running() -> Iterator[str]:
    """Yield its URL; it listens only on a socket in its directory, and refuses to run as root."""
    if PROGRAMS is None or find_spec("psycopg") is None:
        pytest.skip("there is no PostgreSQL, or no psycopg: apt-get install postgresql; pip install psycopg[binary]")
    user = "postgres" if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="streamtopo-postgres-"))
    if user:
        shutil.chown(folder, user)
    options = f"-k {folder} -c listen_addresses='' -c fsync=off"

    def call(program: str, *arguments: str) -> None:
        with (folder.parent / f"{folder.name}.log").open("a") as output:
            subprocess.run(
                [PROGRAMS / program, "-D", folder / "data", *arguments],
                check=True, user=user, cwd=folder, stdout=output, stderr=output,
            )  # fmt: skip

    call("initdb", "-U", "streamtopo", "-A", "trust")
    call("pg_ctl", "-w", "-o", options, "start")
    try:
        yield f"postgresql://streamtopo@/postgres?host={folder}"
    finally:
        call("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder)
        (folder.parent / f"{folder.name}.log").unlink()
