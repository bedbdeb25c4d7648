"""Settings from the command line, else the environment, else pyproject.toml, else defaults; the worker's options."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from streamtopo.cli.shared.options import log_option, worker_options
from streamtopo.engine.processes.command import command, environment
from streamtopo.settings.config import OPTIONS, Guarantee, WorkerConfig
from streamtopo.settings.on_error import Retry, Skip
from tests.cli.conftest import Run


def result_of(*arguments: str, **environment: str) -> Result:
    @click.command()
    @click.argument("app")
    @worker_options
    @log_option
    def work(app: str, log: str, config: WorkerConfig) -> None:
        click.echo(f"{log} {config}")

    return CliRunner().invoke(work, ["app", *arguments], env=environment)


def settings_of(*arguments: str, **environment: str) -> str:
    result = result_of(*arguments, **environment)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def pyproject(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(f"[project]\nname = 'x'\n{text}")


def test_the_defaults_apply_without_settings(folder: Path) -> None:
    assert settings_of() == f"embedded:.streamtopo {WorkerConfig()}"
    pyproject(folder, "")
    assert settings_of() == f"embedded:.streamtopo {WorkerConfig()}"


def test_the_most_specific_setting_wins(folder: Path) -> None:
    pyproject(folder, "[tool.streamtopo]\nlog = 'memory:project'\n")
    assert settings_of().split()[0] == "memory:project"
    assert settings_of(STREAMTOPO_LOG="memory:env").split()[0] == "memory:env"
    assert settings_of("--log", "memory:line", STREAMTOPO_LOG="memory:env").split()[0] == "memory:line"
    assert settings_of(STREAMTOPO_LOG="").split()[0] == "memory:project"


CHANGED: dict[str, tuple[Any, Any]] = {  # as it is written, and what it means
    "state_dir": ("elsewhere", "elsewhere"),
    "commit_interval": ("1.5s", 1500),
    "commit_pause": ("5ms", 5),
    "cache": ("64kB", 64_000),
    "memory": ("1GB", 1_000_000_000),
    "chunk": (7, 7),
    "on_error": ("retry:3:1s:skip", Retry(3, 1000, Skip())),
    "dead_letter_topic": ("bad-records", "bad-records"),
    "guarantee": ("at-least-once", Guarantee.AT_LEAST_ONCE),
    "idle_advance": ("30s", 30_000),
    "max_ahead": ("none", None),
    "origin_idle": ("2s", 2_000),
    "max_task_idle": ("3s", 3_000),
    "create_topics": (3, 3),
    "no_create": (True, True),
    "wait_for_topics": ("1m", 60_000),
    "accept_changes": (True, True),
    "keep_deletions": ("1h", 3_600_000),
    "close_timeout": ("1m", 60_000),
}


def test_every_field_of_the_config_is_an_option() -> None:
    assert [field.name for field in fields(WorkerConfig)] == list(OPTIONS) == list(CHANGED)


@pytest.mark.parametrize("name", CHANGED)
def test_each_option_can_be_set_in_three_places(name: str, folder: Path) -> None:
    written, meant = CHANGED[name]
    expected = f"embedded:.streamtopo {WorkerConfig(**{name: meant})}"
    option = name.replace("_", "-")
    assert settings_of(f"--{option}", *([] if written is True else [str(written)])) == expected
    assert settings_of(**{f"STREAMTOPO_{name.upper()}": str(written)}) == expected
    pyproject(folder, f"[tool.streamtopo]\n{option} = {'true' if written is True else repr(written)}\n")
    assert settings_of() == expected


@pytest.mark.parametrize("name", CHANGED)
def test_the_processes_of_a_pool_get_the_options(name: str, folder: Path) -> None:
    config = WorkerConfig(**{name: CHANGED[name][1]})
    arguments = command("app", config, lifeline=3)
    options = arguments[arguments.index("app") + 1 : arguments.index("--lifeline")]
    pyproject(folder, "[tool.streamtopo]\nlog = 'memory:project'\n")
    assert settings_of(*options, **environment("memory:", None)) == f"memory: {config}"


def test_numbers_in_pyproject_are_milliseconds_and_bytes(folder: Path) -> None:
    pyproject(folder, "[tool.streamtopo]\ncommit-interval = 50\ncache = 0\n")
    assert settings_of() == f"embedded:.streamtopo {WorkerConfig(commit_interval=50, cache=0)}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--commit-interval", "soon"), "(env var: 'STREAMTOPO_COMMIT_INTERVAL'): 'soon' is not a duration"),
        (("--max-ahead", "x"), "or milliseconds as an int, or none for no limit"),
        (
            ("--cache", "10 apples"),
            "Invalid value for '--cache' (env var: 'STREAMTOPO_CACHE'): '10 apples' is not a size",
        ),
        (("--chunk", "0"), "0 is not in the range x>=1"),
        (("--on-error", "panic"), "on_error is 'panic'; give fail, skip"),
    ],
)
def test_a_wrong_value_is_wrong_usage(arguments: tuple[str, ...], said: str) -> None:
    result = result_of(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_wrong_value_in_pyproject_names_the_option(folder: Path) -> None:
    pyproject(folder, "[tool.streamtopo]\ncommit-interval = 'soon'\n")
    assert "'--commit-interval' (env var: 'STREAMTOPO_COMMIT_INTERVAL'): 'soon' is not a" in result_of().stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.streamtopo]\nlogg = 'x'\n", 'pyproject.toml has "logg"; the settings are accept-changes, cache, '),
        ("[tool.streamtopo\n", "pyproject.toml cannot be read: "),
        ("[tool]\nstreamtopo = 5\n", 'has "streamtopo" of type int; it must be a table [tool.streamtopo]'),
        ("[[tool]]\n", 'has "tool" of type list; it must be a table [tool.streamtopo]'),
        ('[tool.streamtopo]\nlog = "embedded:\\u0000"\n', "pyproject.toml has a zero byte; remove it"),
    ],
)
def test_an_invalid_pyproject_is_an_error(text: str, said: str, run: Run, folder: Path) -> None:
    pyproject(folder, text)
    result = run("topics", "list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("value", ["inf", "1979-05-27", "[]", '"1ZB"', f'"{"9" * 400}GB"'])
def test_an_invalid_size_in_pyproject_is_named(value: str, folder: Path) -> None:
    pyproject(folder, f"[tool.streamtopo]\nmemory = {value}\n")
    assert "is not a size; give bytes as an int, or a string like '64kB'" in result_of().stderr


def test_an_impossible_place_for_a_log_is_an_error_without_our_traceback(run: Run) -> None:
    result = run("topics", "create", "t", "--partitions", "1", "--log", "embedded:/proc/words")
    assert result.exit_code == 1
    assert result.stderr.startswith('Error: cannot create the log at "/proc/words": No such file or directory; ')


def test_an_unknown_kind_of_log_is_an_error(run: Run) -> None:
    result = run("topics", "list", "--log", "carrier-pigeon:")
    assert result.exit_code == 1
    assert result.stderr.startswith('Error: there is no log "carrier-pigeon:"; a log is one of ')
