"""How commands end when they fail: the exit code, one message, and the shown traceback."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from apps.wordcount import topology
from tests.cli.conftest import ROOT, Run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Usage: "),
        (("graph",), "Missing argument 'APP'"),
        (("graph", "apps.wordcount", "--format", "png"), "'png' is not one of"),
        (
            ("graph", "apps.wordcount", "-o", "drawn.png"),
            'the suffix of "drawn.png" is not a known format; use one of .txt',
        ),
        (("grph",), "No such command 'grph'"),
    ],
)
def test_wrong_usage_ends_with_2(run: Run, arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_failure_ends_with_1_and_one_message(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "drawn.svg"
    file.write_text("before")
    result = run("graph", "apps.wordcount:nothing", "-o", str(file))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == 'Error: module "apps.wordcount" has no "nothing"; it has topology, builder\n'
    assert file.read_text() == "before"


def test_the_users_traceback_is_shown_without_the_engines(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "failing_application.py"
    file.write_text("from streamtopo import StreamsBuilder\nStreamsBuilder('x').stream('a').to('no good')\n")
    short, whole = run("graph", str(file)), run("graph", str(file), "--verbose")
    assert (short.exit_code, whole.exit_code) == (1, 1)
    assert short.stderr.count("  File ") == 1
    assert f'File "{file}", line 2, in <module>\n    StreamsBuilder' in short.stderr
    assert short.stderr.splitlines()[-1].startswith(
        'Error: importing "failing_application" failed: TopologyError: topic'
    )
    assert "in valid_name" in whole.stderr
    assert "importlib" in whole.stderr


def test_causes_are_shown_without_the_engines(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tested_application.py"
    file.write_text(
        "from streamtopo import StreamsBuilder\nfrom streamtopo.testing import Driver\n"
        "builder = StreamsBuilder('x')\nbuilder.stream('a', value=str).map_values(lambda value: 1 / 0)\n"
        "Driver(builder.build()).send('a', 'b')\n"
    )
    lines = run("graph", str(file)).stderr.splitlines()
    assert [line.rpartition(", ")[0] for line in lines if line.startswith("  File ")] == [
        f'  File "{file}", line 4',
        f'  File "{file}", line 5',
    ]
    assert [line.partition(":")[0] for line in lines if not line.startswith(" ")] == [
        "Traceback (most recent call last)",
        "ZeroDivisionError",
        "",
        "The above exception was the direct cause of the following exception",
        "",
        "Traceback (most recent call last)",
        "streamtopo.errors.StepError",
        "Error",
    ]


def test_ctrl_c_ends_with_130(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "interrupted_application.py"
    file.write_text("raise KeyboardInterrupt")
    assert run("graph", str(file)).exit_code == 130


def test_python_m_is_the_same() -> None:
    command = [sys.executable, "-m", "streamtopo", "graph", "apps.wordcount"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout == topology.describe()


def test_the_version_is_the_installed_one(run: Run) -> None:
    try:
        installed = version("streamtopo")
    except PackageNotFoundError:
        pytest.skip("streamtopo runs from its folder here, so it has no version")
    assert run("--version").stdout == f"streamtopo, version {installed}\n"
