"""The fixture `driver`, in a separate pytest: it does not matter whether the plugin is installed here."""

from __future__ import annotations

import os
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


def test_the_fixture_makes_and_closes_drivers(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": root}
    command = [sys.executable, "-m", "pytest", "-Werror", "-p", "streamtopo.pytest_plugin", "-p", "no:cacheprovider"]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "2 passed" in run.stdout, run.stdout + run.stderr
