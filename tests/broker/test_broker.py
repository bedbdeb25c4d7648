"""`streamtopo broker`: a real Apache Kafka, up and down, and what is said where that cannot be."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamtopo.broker import Cluster, downloads
from streamtopo.broker.directories import cache_directory
from streamtopo.cli import main

pytestmark = pytest.mark.kafka


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["broker", *map(str, arguments)])


@pytest.mark.usefixtures("cluster")
def test_it_comes_up_once_stays_up_and_goes_down(tmp_path: Path) -> None:
    first = run("up", "--dir", tmp_path, "--port", 0)
    second = run("up", "--dir", tmp_path)
    assert (first.exit_code, first.stdout, second.output) == (0, second.stdout, second.stdout)
    assert first.stderr == f"starting Apache Kafka in {tmp_path}\n"
    (node,) = json.loads(run("status", "--dir", tmp_path, "--json").output)
    host, port = node["address"].split(":")
    assert first.stdout == f"export STREAMTOPO_LOG=kafka://{host}:{port}\n"
    socket.create_connection((host, int(port))).close()
    assert "Kafka Server started" in run("logs", "--dir", tmp_path, "--lines", 500).output
    assert "has 1 brokers, not 3" in run("up", "--dir", tmp_path, "--brokers", 3).output
    assert run("down", "--dir", tmp_path).output == f"the cluster in {tmp_path} is down\n"
    assert run("down", "--dir", tmp_path).output == f"the cluster in {tmp_path} was not running\n"
    stopped = run("status", "--dir", tmp_path)
    assert (stopped.exit_code, stopped.output.split("\t")[1]) == (1, "-")


def test_no_cluster_is_said_so(tmp_path: Path) -> None:
    result = run("status", "--dir", tmp_path)
    assert (result.exit_code, "there is no cluster" in result.output) == (1, True)
    assert "has 0 brokers" in run("logs", "--dir", tmp_path).output


@pytest.mark.usefixtures("cluster")
def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        result = run("up", "--dir", tmp_path, "--port", port)
    assert (result.exit_code, f"port {port} is used by another process" in result.output) == (1, True)
    assert "there is no cluster" in run("status", "--dir", tmp_path).output  # another port can be chosen


def test_java_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = run("up", "--dir", tmp_path / "c")
    assert (result.exit_code, "needs Java 17 or newer" in result.output) == (1, True)
    assert not (tmp_path / "c").exists()


@pytest.mark.usefixtures("cluster")
def test_a_fetch_that_fails_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(downloads.MIRROR, f"file://{tmp_path}/nothing")
    result = run("up", "--dir", tmp_path / "c", "--port", 0)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"downloading kafka-{downloads.VERSION}, once\nError: ")
    assert "could not be downloaded" in result.stderr
    assert "--kafka-home" in result.output


@pytest.mark.usefixtures("cluster")
def test_a_kafka_that_is_there_already_is_used(tmp_path: Path) -> None:
    result = run("up", "--dir", tmp_path / "c", "--port", 0, "--kafka-home", tmp_path)
    assert (result.exit_code, "has no libs/kafka_*.jar" in result.output) == (1, True)
    (tmp_path / "libs").symlink_to(cache_directory() / f"kafka-{downloads.version()}")
    assert downloads.jars("java", tmp_path)


@pytest.mark.usefixtures("cluster")
def test_a_broker_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    result = run("up", "--dir", tmp_path, "--port", 0, "--config", "num.io.threads=none")
    assert result.exit_code == 1
    assert "num.io.threads" in result.output
    assert Cluster(tmp_path).status()[0].pid is None


@pytest.mark.usefixtures("cluster")
def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("up", "--dir", tmp_path / "file" / "c", "--port", 0)
    assert (result.exit_code, "Error: the cluster cannot be stored in" in result.output) == (1, True)
