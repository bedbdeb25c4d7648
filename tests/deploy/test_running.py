"""The worker of deploy/ runs: with the settings of the image it answers the probes, and SIGTERM ends it in time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
import yaml

from streamtopo.broker.node import free_port
from streamtopo.settings.config import WorkerConfig
from tests.logs.child import until

DEPLOY = Path(__file__).parents[2] / "deploy"
POD: dict[str, Any] = yaml.safe_load((DEPLOY / "kubernetes" / "workers.yaml").read_text())["spec"]["template"]["spec"]
CONTAINER: dict[str, Any] = POD["containers"][0]
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
UNIT = (DEPLOY / "systemd" / "streamtopo@.service").read_text()
VOLUME = "/var/lib/streamtopo"


def image() -> dict[str, str]:
    """Return the variables of the Dockerfile."""
    text = (DEPLOY / "Dockerfile").read_text()
    (block,) = re.findall(r"^ENV ((?:.*\\\n)*.*)", text, re.MULTILINE)
    return dict(one.split("=", 1) for one in block.replace("\\\n", " ").split())


def status(port: int, path: str) -> int:
    """Return the answer to a probe, or 0 while nothing listens."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except URLError:
        return 0


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the worker with the variables of the image, its volume in a folder, and the arguments of the manifest."""
    port = free_port()
    settings = {name: value.replace(VOLUME, str(tmp_path)) for name, value in image().items() if name != "PATH"}
    settings |= {"STREAMTOPO_WEB_PORT": str(port), "STREAMTOPO_LOG": f"embedded:{tmp_path}/log"}
    shutil.copy(DEPLOY / "app" / "app.py", tmp_path)
    command = [sys.executable, "-m", "streamtopo", *CONTAINER["args"]]
    process = subprocess.Popen(command, cwd=tmp_path, env=os.environ | settings)
    yield process, port
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()


def test_the_probes_are_answered_and_sigterm_ends_it_with_0(pod: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = pod
    probes = {kind: CONTAINER[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    until(lambda: status(port, probes["readiness"]) == 200, 60.0)
    assert {kind: status(port, path) for kind, path in probes.items()} == dict.fromkeys(probes, 200)
    process.terminate()
    assert process.wait(60) == 0


def test_the_volume_has_all_that_must_outlive_the_container(
    pod: tuple[subprocess.Popen[bytes], int], tmp_path: Path
) -> None:
    process, port = pod
    until(lambda: status(port, "/health/ready") == 200, 60.0)
    assert CONTAINER["volumeMounts"] == [{"name": "state", "mountPath": VOLUME}]
    assert COMPOSE["worker"]["volumes"] == [VOLUME]
    assert (tmp_path / "state" / "wordcount").is_dir()
    assert image()["TMPDIR"] == VOLUME
    process.terminate()
    process.wait(60)


def test_grace_periods_are_longer_than_the_last_commit_may_take() -> None:
    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    periods = [POD["terminationGracePeriodSeconds"], int(COMPOSE["worker"]["stop_grace_period"].rstrip("s")), int(stop)]
    assert all(period >= WorkerConfig().close_timeout / 1000 + 10 for period in periods)
