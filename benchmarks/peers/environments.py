"""What peers run in: virtual environments and jars, made once, in the user's cache, for what is pinned."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from hashlib import sha256
from pathlib import Path

from streamtopo.broker import find_java
from streamtopo.broker.directories import cache_directory
from streamtopo.broker.fetching import LOGGING, VERSION, fetched

HERE = Path(__file__).parent
_STREAMS = f"org.apache.kafka:kafka-streams:{VERSION}", "com.fasterxml.jackson.core:jackson-databind:2.19.0", LOGGING


class MissingPeerError(Exception):
    """It cannot be installed here; the others can be measured all the same."""


def python_of(peer: str) -> str:
    """The interpreter of the environment with what requirements/PEER.txt pins."""
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
    """The command that runs Streams.java, which Java compiles as it starts."""
    java = find_java()
    jars = fetched(java, f"kafka-streams-{VERSION}", _STREAMS)
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [java, quiet, "-cp", os.pathsep.join(map(str, jars)), str(HERE / "programs" / "Streams.java")]
