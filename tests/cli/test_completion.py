"""streamtopo completion: scripts for the shells, and their completions."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from streamtopo.cli import main
from streamtopo.cli.completion import SHELLS
from streamtopo.logs import Log, Topic
from streamtopo.records import Position, TopicPartition
from tests.cli.conftest import Run


def completed(*words: str) -> list[str]:
    completion = ShellComplete(main, {}, "streamtopo", "_STREAMTOPO_COMPLETE")
    return [item.value for item in completion.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_each_shell(shell: str, run: Run, folder: Path) -> None:
    result = run("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"_STREAMTOPO_COMPLETE={shell}_complete" in result.stdout
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=result.stdout, text=True, check=True)


def test_commands_and_options_are_completed() -> None:
    assert completed("topics", "") == ["compact", "create", "delete", "describe", "list", "plan", "verify"]
    assert completed("consume", "t", "--fr") == ["--from-beginning"]


@pytest.mark.parametrize("command", [("produce",), ("consume",), ("topics", "describe"), ("topics", "delete")])
def test_topics_are_completed_from_the_log(command: tuple[str, ...], log: Log) -> None:
    for name in ("sentences", "sensors", "words"):
        log.create(Topic(name, 1))
    assert completed(*command, "sen") == ["sensors", "sentences"]
    assert completed(*command, "--log", "embedded:elsewhere", "sen") == []


def test_groups_are_completed(log: Log) -> None:
    log.create(Topic("t", 1))
    member = log.join("wordcount", [("t",)])
    member.assignment()
    member.commit({TopicPartition("t", 0): Position(0)})
    assert completed("groups", "describe", "w") == ["wordcount"]


def test_without_a_log_nothing_is_completed_or_created(folder: Path) -> None:
    assert completed("consume", "") == []
    assert list(folder.iterdir()) == []


def test_a_broken_pyproject_does_not_get_into_the_prompt(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "pyproject.toml").write_text("[tool.streamtopo")
    assert completed("consume", "") == []
    assert capfd.readouterr() == ("", "")
