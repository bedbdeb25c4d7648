"""streamtopo new: what it makes runs at once."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Start
from tests.cli.workers import Running

WAIT = "until streamtopo query stall totals ann > /dev/null 2>&1; do sleep 0.1; done"


@pytest.fixture
def made(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    result = run("new", "stall")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "cd stall && streamtopo worker stall")
    monkeypatch.chdir(folder / "stall")
    return folder / "stall"


def test_a_new_project_has_four_files(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == ["README.md", "pyproject.toml", "stall.py", "test_stall.py"]
    assert tomllib.loads((made / "pyproject.toml").read_text())["project"]["name"] == "stall"


def test_its_tests_pass(made: Path) -> None:
    tested = subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=made, capture_output=True, text=True)
    assert (tested.returncode, "2 passed" in tested.stdout) == (0, True), tested.stdout


def test_the_commands_of_its_readme_work(made: Path, start: Start) -> None:
    shell = [block.partition("```")[0] for block in (made / "README.md").read_text().split("```sh\n")[1:]]
    worker, *others = [line for block in shell for line in block.splitlines()]
    assert worker == "streamtopo worker stall"
    running = Running(made, "stall")
    try:
        running.wait_for("8 tasks running")
        path = f'streamtopo() {{ "{sys.executable}" -m streamtopo "$@"; }}; pytest() {{ :; }}; '
        environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
        command = ["bash", "-ec", path + "\n".join([others[0], WAIT, *others[1:]])]
        said = subprocess.run(command, cwd=made, capture_output=True, text=True, env=environment)
        assert (said.stdout.splitlines(), said.stderr) == (
            ['1 record written to "orders"', "ann\t20.0", "ann\t20.0"],
            "",
        )
    finally:
        running.kill()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my-shop", '"my-shop" cannot be the name of a Python module; try my_shop'),
        ("class", '"class" cannot be the name of a Python module; try my_class'),
        ("3d", '"3d" cannot be the name of a Python module; try my_3d'),
        ("../shop", '"../shop" cannot be the name of a Python module; try shop'),
        ("Größe", '"Größe" cannot be the name of a Python module; try gr_e'),
        ("json", '"json" is the name of a module that is installed already; try my_json'),
        ("click", '"click" is the name of a module that is installed already; try my_click'),
        ("setup", 'pip would run "setup.py" to install the project; try my_setup'),
        ("full", '"full" exists already, and is not an empty folder; give another name'),
        ("file", '"file" exists already, and is not an empty folder; give another name'),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(name: str, said: str, run: Run, folder: Path) -> None:
    (folder / "full").mkdir()
    (folder / "full" / "notes.txt").touch()
    (folder / "file").touch()
    result = run("new", name)
    assert (result.exit_code, result.stderr) == (1, f"Error: {said}\n")
    assert sorted(path.name for path in folder.rglob("*")) == ["file", "full", "notes.txt"]


def test_an_empty_folder_is_filled(run: Run, folder: Path) -> None:
    (folder / "stall").mkdir()
    assert run("new", "stall").exit_code == 0


def test_a_project_inside_another_one_is_mentioned(run: Run, made: Path) -> None:
    inner = run("new", "counter")
    assert inner.exit_code == 0
    assert (
        inner.stderr
        == f"counter/ is a project of its own, inside the project in {made}: it has its own log and settings\n"
    )
