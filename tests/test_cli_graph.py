"""streamtopo graph: formats and files; and how every command ends when it fails."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from apps.wordcount import topology
from streamtopo.cli import main
from streamtopo.cli.graph import SUFFIXES
from streamtopo.drawing import FORMATS

HEAVY = ["click", "rich", "pyarrow", "rocksdict", "confluent_kafka", "asyncio", "sqlite3", "streamtopo.drawing"]


@pytest.fixture(autouse=True)
def _keep_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_every_format_has_a_suffix() -> None:
    assert sorted(SUFFIXES.values()) == sorted(FORMATS)


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_by_name(form: str) -> None:
    result = run("graph", "apps.wordcount", "--format", form)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == FORMATS[form](topology)


def test_without_a_format_it_is_text() -> None:
    assert run("graph", "apps/wordcount").stdout == run("graph", "apps.wordcount:builder", "-o", "-").stdout
    assert run("graph", "apps/wordcount").stdout == topology.describe()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_format_by_the_file(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"drawn{suffix}"
    result = run("graph", "apps.wordcount", "-o", str(file))
    assert (result.exit_code, result.output) == (0, "")
    assert file.read_text() == FORMATS[SUFFIXES[suffix]](topology)


def test_the_name_of_a_format_outweighs_the_file(tmp_path: Path) -> None:
    file = tmp_path / "drawn.svg"
    run("graph", "apps.wordcount", "--format", "dot", "--output", str(file))
    assert file.read_text() == FORMATS["dot"](topology)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Usage: "),
        (("graph",), "Missing argument 'APP'"),
        (("graph", "apps.wordcount", "--format", "png"), "'png' is not one of"),
        (("graph", "apps.wordcount", "-o", "drawn.png"), 'the suffix of "drawn.png" names no format; use one of .txt'),
        (("grph",), "No such command 'grph'"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_failure_ends_with_1_and_one_message(tmp_path: Path) -> None:
    file = tmp_path / "drawn.svg"
    file.write_text("before")
    result = run("graph", "apps.wordcount:nothing", "-o", str(file))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == 'Error: module "apps.wordcount" has no "nothing"; it has topology, builder\n'
    assert file.read_text() == "before"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    result = run("graph", "apps.wordcount", "-o", str(tmp_path / "no" / "drawn.svg"))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: Could not open file")


def test_the_users_traceback_is_shown_without_the_engines(tmp_path: Path) -> None:
    file = tmp_path / "failing_application.py"
    file.write_text("from streamtopo import StreamsBuilder\nStreamsBuilder('x').stream('a').to('no good')\n")
    told, whole = run("graph", str(file)), run("graph", str(file), "--verbose")
    assert (told.exit_code, whole.exit_code) == (1, 1)
    assert told.stderr.count("  File ") == 1
    assert f'File "{file}", line 2, in <module>\n    StreamsBuilder' in told.stderr
    assert told.stderr.splitlines()[-1].startswith(
        'Error: importing "failing_application" failed: TopologyError: topic'
    )
    assert "in valid_name" in whole.stderr
    assert "importlib" in whole.stderr


def test_causes_are_shown_without_the_engines(tmp_path: Path) -> None:
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


def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    file = tmp_path / "interrupted_application.py"
    file.write_text("raise KeyboardInterrupt")
    assert run("graph", str(file)).exit_code == 130


def test_python_m_is_the_same() -> None:
    command = [sys.executable, "-m", "streamtopo", "graph", "apps.wordcount"]
    assert subprocess.run(command, capture_output=True, text=True).stdout == topology.describe()


def test_the_version_is_the_installed_one() -> None:
    try:
        installed = version("streamtopo")
    except PackageNotFoundError:
        pytest.skip("streamtopo runs from its folder here, so it has no version")
    assert run("--version").stdout == f"streamtopo, version {installed}\n"


@pytest.mark.parametrize("module", ["streamtopo", "streamtopo.testing", "streamtopo.cli"])
def test_what_is_not_needed_is_not_imported(module: str) -> None:
    code = f"import {module}, sys; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    allowed = ["click"] if module == "streamtopo.cli" else []
    assert module in loaded
    assert [name for name in HEAVY if name in loaded] == allowed
