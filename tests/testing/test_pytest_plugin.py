"""The pytest plugin, in a separate pytest: it does not matter whether the plugin is installed here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TEST = """
from streamtopo import Processor, StreamsBuilder

closed = []

class Closing(Processor):
    def close(self):
        closed.append(self.context.task_id)

def topology():
    builder = StreamsBuilder("shout")
    builder.stream("words", value=str).process(Closing).map_values(str.upper).to("shouts")
    return builder.build()

def test_makes_drivers(driver):
    first, second, crashed = driver(topology(), partitions=2), driver(topology()), driver(topology())
    crashed.crash()
    first.send("words", "quiet")
    assert (first.read("shouts"), second.read("shouts")) == ([(None, "QUIET")], [])
    assert closed == []

def test_closes_them_unless_they_crashed():
    assert sorted(closed) == ["0_0", "0_0", "0_1"]
"""


def pytest_in(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": root}
    command = [sys.executable, "-m", "pytest", "-Werror", "-p", "streamtopo.pytest_plugin", "-p", "no:cacheprovider"]
    return subprocess.run([*command, *options], cwd=folder, env=environment, capture_output=True, text=True)


def test_the_fixture_makes_and_closes_drivers(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    run = pytest_in(tmp_path)
    assert "2 passed" in run.stdout, run.stdout + run.stderr


FAILING = """
from streamtopo import StreamsBuilder

def to_cents(value):
    return cents(value)

def cents(value):
    return int(value) * 100

def test_a_step(driver):
    builder = StreamsBuilder("orders")
    builder.stream("in", value=str).map_values(to_cents).to("out")
    driver(builder).send("in", "x")

def test_a_topology():
    StreamsBuilder("orders").stream("in").map_values(lambda key, value: value)
"""


def test_reports_show_the_users_frames_only(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILING)
    run = pytest_in(tmp_path)
    assert "2 failed" in run.stdout, run.stdout + run.stderr
    places = re.findall(r"^(\S+\.py):(\d+): ", run.stdout, re.M)
    assert places == [("test_it.py", "5"), ("test_it.py", "8"), ("test_it.py", "13"), ("test_it.py", "16")]
    assert "streamtopo/" not in run.stdout.partition("FAILURES")[2]
    assert len(run.stdout.splitlines()) < 60
    assert "streamtopo/engine/" in pytest_in(tmp_path, "--full-trace").stdout
