"""Environments of the peers: virtual environments and jars of pinned versions, created once in the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from hashlib import sha256
from pathlib import Path

from streamtopo.broker import find_java
from streamtopo.broker.directories import cache_directory
from streamtopo.broker.downloads import LOGGING, fetched

VERSION = "4.3.1"
"""Of Kafka Streams: that of the broker. The cases in tests/conformance were recorded from 4.1.0."""
HERE = Path(__file__).parent
_STREAMS = f"org.apache.kafka:kafka-streams:{VERSION}", "com.fasterxml.jackson.core:jackson-databind:2.21.2", LOGGING


class MissingPeerError(Exception):
    """It cannot be installed here; the others can still be measured."""


def python_of(peer: str) -> str:
    """Return the Python of the environment with the packages pinned in requirements/PEER.txt."""
    pinned = (HERE / "requirements" / f"{peer}.txt").read_bytes()
    directory = cache_directory() / "peers" / f"{peer}-{sha256(pinned).hexdigest()[:12]}"
    python = directory / "bin" / "python"
    if not (directory / "complete").exists():
        shutil.rmtree(directory, ignore_errors=True)
        venv.create(directory, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "-r", str(HERE / "requirements" / f"{peer}.txt")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MissingPeerError(f"{peer} cannot be installed: {done.stderr.strip()[-500:]}")
        (directory / "complete").touch()
    return str(python)


def kafka_streams() -> list[str]:
    """Return the command that runs Streams.java, which Java compiles at start."""
    java = find_java()
    jars = fetched(java, f"kafka-streams-{VERSION}", _STREAMS)
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [java, quiet, "-cp", os.pathsep.join(map(str, jars)), str(HERE / "programs" / "Streams.java")]
