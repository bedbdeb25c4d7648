"""The jars of Apache Kafka: downloaded once, from Maven Central or a mirror, with the Ivy that pyspark includes."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from streamtopo.broker.directories import cache_directory
from streamtopo.errors import BrokerError

VERSION = "4.3.1"
"""The tests pass with this one and with 4.1.0; the environment may name another."""
CHOICE = "STREAMTOPO_BROKER_VERSION"
MIRROR = "STREAMTOPO_MAVEN_URL"
LOGGING = "org.slf4j:slf4j-simple:1.7.36"
_DOWNLOADED = "[SUCCESSFUL ]"
"""What Ivy writes for each file."""
_ATTEMPTS = 2
"""The first attempt may end with a missing jar, which the second one finds."""


Say = Callable[[str, str], object]
"""Is told what is being done, and how far it is."""


def unsaid(doing: str, progress: str) -> None:
    pass


def version() -> str:
    return os.environ.get(CHOICE) or VERSION


def jars(java: str, home: Path | None = None, say: Say = unsaid) -> list[Path]:
    """The jars that a broker needs: of this installation of Kafka, or downloaded into the cache of the user."""
    if home is not None:
        return _installed(home)
    wanted = f"org.apache.kafka:kafka_2.13:{version()}", f"org.apache.kafka:kafka-tools:{version()}", LOGGING
    return fetched(java, f"kafka-{version()}", wanted, say)


def fetched(java: str, name: str, coordinates: Sequence[str], say: Say = unsaid) -> list[Path]:
    """These jars and their dependencies, in a directory of this name in the cache of the user."""
    directory = cache_directory() / name
    complete = directory / "complete"
    with _alone(directory):
        if not complete.exists():
            _fetch(java, directory, coordinates, lambda progress: say(f"downloading {name}, once", progress))
            complete.touch()
    return sorted(directory.glob("*.jar"))


def _installed(home: Path) -> list[Path]:
    found = sorted((home / "libs").glob("*.jar"))
    if not any(jar.name.startswith("kafka_") for jar in found):
        raise BrokerError(f"{home} has no libs/kafka_*.jar; give the directory of an unpacked Kafka download")
    return found


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(java: str, directory: Path, coordinates: Sequence[str], say: Callable[[str], object]) -> None:
    ivy = _ivy()
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        module = Path(scratch) / "ivy.xml"
        module.write_text(_module(coordinates))
        command = [java, "-jar", str(ivy), "-cache", str(directory / "ivy"), *_settings(Path(scratch))]
        command += ["-ivy", str(module), "-confs", "default", "-types", "jar", "bundle"]
        command += ["-retrieve", f"{scratch}/jars/[artifact]-[revision].[ext]"]
        for _ in range(_ATTEMPTS):
            code, output = _run_ivy(command, say)
            if code == 0 and "FAILED" not in output:
                break
        else:
            raise BrokerError(
                f"{', '.join(coordinates)} could not be downloaded:\n{_errors(output)}\n"
                f"Set {MIRROR} to a Maven repository that can be reached from here, or use an unpacked Kafka "
                "download: --kafka-home DIRECTORY"
            )
        for jar in (Path(scratch) / "jars").iterdir():
            jar.replace(directory / jar.name)
    shutil.rmtree(directory / "ivy")


def _run_ivy(command: list[str], say: Callable[[str], object]) -> tuple[int, str]:
    """Its exit code, and what it wrote."""
    lines, found = [], 0
    say("")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        for line in ivy.stdout or ():
            lines.append(line)
            if _DOWNLOADED in line:
                found += 1
                say(f"{found} files")
    return ivy.returncode, "".join(lines)


def _ivy() -> Path:
    pyspark = find_spec("pyspark")
    folders = pyspark.submodule_search_locations if pyspark else None
    for folder in folders or ():
        for jar in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return jar
    raise BrokerError(
        f"Apache Kafka {version()} is downloaded with the Ivy that pyspark includes, and pyspark is not installed: "
        'pip install "pyspark>=4.0"; or use an unpacked Kafka download: --kafka-home DIRECTORY'
    )


def _module(coordinates: Sequence[str]) -> str:
    wanted = "".join(
        f'<dependency org="{org}" name="{name}" rev="{revision}" conf="default->default"/>'
        for org, name, revision in (one.split(":") for one in coordinates)
    )
    return (
        '<ivy-module version="2.0"><info organisation="streamtopo" module="broker"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )


def _settings(scratch: Path) -> list[str]:
    """Ivy's settings: of the mirror in the environment, else those of the user, else none."""
    own = Path.home() / ".ivy2" / "ivysettings.xml"
    if mirror := os.environ.get(MIRROR):
        own = scratch / "ivysettings.xml"
        own.write_text(
            '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
            f'<ibiblio name="mirror" m2compatible="true" root="{mirror.rstrip("/")}/"/></resolvers></ivysettings>'
        )
    return ["-settings", str(own)] if own.exists() else []


def _errors(output: str) -> str:
    """The last lines about errors, or else the last lines."""
    lines = [line.strip() for line in output.splitlines()]
    errors = [line for line in lines if "WARN" in line or "ERROR" in line or "FAILED" in line or "unresolved" in line]
    return "\n".join((errors or lines)[-8:])
