"""The commands on a kafka: log, as users type them."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamtopo.broker.node import free_port
from streamtopo.cli import main
from tests.cli.workers import application
from tests.kafka.brokers import emptied

pytestmark = pytest.mark.kafka


def run(kafka: str, *arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(main, [*arguments, "--log", kafka], input=given)


def test_topics_are_created_written_read_and_deleted(kafka: str) -> None:
    """The topic has its own name: a broker may still compact a deleted topic that is soon created again."""
    emptied(kafka).close()
    created = run(kafka, "topics", "create", "kept", "--partitions", "2", "--config", "cleanup.policy=compact")
    assert created.output == f'topic "kept" created: 2 partitions in {kafka}\n'
    assert (
        "exists already"
        in run(kafka, *["topics", "create", "kept", "--partitions", "2", "--config", "cleanup.policy=compact"]).output
    )
    assert run(kafka, "produce", "kept", "--key-separator", ":", given="k:one\nk:two\n").exit_code == 0
    lines = run(kafka, "consume", "kept", "--json").output.splitlines()
    assert [(line["key"], line["value"], line["offset"]) for line in map(json.loads, lines)] == [
        ("k", "one", 0),
        ("k", "two", 1),
    ]
    assert run(kafka, "topics", "list").output == "kept\t2\tcleanup.policy=compact\n"
    assert run(kafka, "topics", "describe", "kept").output.endswith("\n0\t0\t2\n1\t0\t0\n")
    assert run(kafka, "groups", "list").output == ""
    assert run(kafka, "topics", "delete", "kept").exit_code == 0
    assert run(kafka, "topics", "list").output == ""


def test_a_missing_broker_is_one_message() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", free_port()))
        result = run(f"kafka://127.0.0.1:{silent.getsockname()[1]}", "topics", "list")
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].startswith("Error: no broker answers at 127.0.0.1:")
    assert "Traceback" not in result.output


def test_unsuitable_settings_are_one_message(kafka: str) -> None:
    emptied(kafka).close()
    run(kafka, "topics", "create", "unfit", "--partitions", "1")
    result = run(f"{kafka}?kafka.acks=1", "produce", "unfit", given="one\n")
    assert (result.exit_code, "Error: Kafka could not be written to: _INVALID_ARG" in result.output) == (1, True)
    run(kafka, "topics", "delete", "unfit")


def test_a_password_in_the_url_is_never_shown(kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emptied(kafka).close()
    application(tmp_path)
    monkeypatch.chdir(tmp_path)
    url = f"{kafka}?kafka.sasl.username=me&kafka.sasl.password=hunter2"
    for arguments, code in {
        "topics create secret --partitions 2": 0,
        "topics describe secret --verbose": 0,
        "topics describe secrett --verbose": 1,
        "produce secret": 0,
        "produce nowhere --verbose": 1,
        "consume secret --json": 0,
        "consume nowhere": 1,
        "topics plan counting": 0,
        "groups describe nowhere --verbose": 1,
        "query counting counts": 1,
        "reset counting --verbose": 0,
        "worker counting --verbose": 1,
        "topics delete secret": 0,
        "topics delete secret --verbose": 1,
    }.items():
        result = run(url, *arguments.split(), given="one\n")
        assert result.exit_code == code, result.output
        assert "hunter2" not in result.output
