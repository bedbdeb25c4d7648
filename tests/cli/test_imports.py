"""Commands do not import packages that they do not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ["click", "rich", "pyarrow", "rocksdict", "confluent_kafka", "asyncio", "sqlite3"]
HEAVY += ["http.client", "msgspec", "pyspark", "ssl", "starlette", "uvicorn"]
HEAVY += [
    "streamtopo.drawing",
    "streamtopo.hosting.app",
    "streamtopo.logs.embedded",
    "streamtopo.stores.backends.rocks",
]


@pytest.mark.parametrize("module", ["streamtopo", "streamtopo.testing", "streamtopo.cli"])
def test_only_needed_packages_are_imported(module: str) -> None:
    code = f"import {module}, sys; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    allowed = ["click"] if module == "streamtopo.cli" else []
    assert module in loaded
    assert [name for name in HEAVY if name in loaded] == allowed
