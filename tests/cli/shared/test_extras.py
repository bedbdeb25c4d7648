"""Without the packages of an extra, errors in code and on the command line say which extra to install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = {
    "kafka": ["confluent_kafka"],
    "web": ["starlette", "uvicorn", "httptools"],
    "spark": ["pyspark", "py4j"],
    "postgresql": ["psycopg"],
    "faust": ["faust"],
}
MAIN = "from streamtopo.cli import main; main({})"
TRIED = [
    ("kafka", "from streamtopo import host; host('apps.wordcount', 'kafka://127.0.0.1:1').__enter__()"),
    ("kafka", "from streamtopo import Worker; from apps.wordcount import topology; Worker(topology, 'kafka://h:1')"),
    ("kafka", MAIN.format(["topics", "list", "--log", "kafka://127.0.0.1:1"])),
    ("kafka", MAIN.format(["worker", "apps.wordcount", "--log", "kafka://127.0.0.1:1"])),
    ("web", "import streamtopo.web"),
    ("web", "from streamtopo.web import application, hosted"),
    ("web", "from streamtopo.web.serving import Server"),
    ("web", MAIN.format(["worker", "apps.wordcount", "--web-port", "0", "--create-topics", "1"])),
    ("spark", "from streamtopo.spark import read_topic"),
    ("spark", "import streamtopo.spark; streamtopo.spark.register"),
    ("spark", MAIN.format(["rollup", "apps.wordcount"])),
    ("spark", MAIN.format(["reconcile", "apps.wordcount", "counts"])),
    ("postgresql", "from streamtopo.spark.sinks.sql import transaction; transaction('postgresql://h/d').__enter__()"),
    ("faust", "from streamtopo.integrations.faust import attach"),
]


@pytest.mark.parametrize(("extra", "code"), TRIED)
def test_a_missing_extra_is_named(extra: str, code: str, tmp_path: Path) -> None:
    blocked = f"import sys; sys.modules.update(dict.fromkeys({PACKAGES[extra]}))\n"
    run = subprocess.run(
        [sys.executable, "-c", blocked + code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    last = run.stderr.rstrip().splitlines()[-1]
    assert run.returncode == 1, run.stderr
    assert f'needs the extra "{extra}": pip install "streamtopo[{extra}]"' in last
    assert last.endswith(f"(in a clone of streamtopo: pip install -e '.[{extra}]')")
    assert "Traceback" not in run.stderr or "main" not in code


def test_messages_name_only_existing_extras() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(PACKAGES) == extras.keys() - {"dev", "docs"}
