"""Finds a Java that is new enough for brokers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from streamtopo.errors import BrokerError

NEEDED = 17


def find_java() -> str:
    """The java of JAVA_HOME, else the first one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else None
    java = java or shutil.which("java")
    if java is None:
        raise BrokerError(
            f"Apache Kafka needs Java {NEEDED} or newer, and there is no java on the PATH or in JAVA_HOME; install "
            "one, for example the package openjdk-17-jre-headless"
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', said.stderr)
    if version is None:
        raise BrokerError(f"{java} does not work: {said.stderr.strip() or said.stdout.strip()}; fix or replace it")
    if int(version[1]) < NEEDED:
        raise BrokerError(f"Apache Kafka needs Java {NEEDED} or newer, and {java} is {version[1]}; set JAVA_HOME")
    return java
