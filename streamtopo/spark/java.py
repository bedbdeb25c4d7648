"""Spark's Java process: checks that there is a Java, starts the process, and listens to it while it starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from threading import Event, Thread
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from streamtopo.errors import StreamtopoError

JAVA = 17
KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13"
REPOSITORY = "STREAMTOPO_MAVEN_URL"
"""The url of a mirror of Maven Central, for machines that cannot reach it."""
WITH_CONNECTOR = "4.0.0"
"""The PySpark whose connector for Kafka our tests fetch: repositories do not have those of all versions."""
_STANDARD_ERROR = 2
_PACKAGE = re.compile(r"unresolved dependency: ([\w.-]+)#([\w.-]+);([\w.-]+)")
_UNREACHABLE = re.compile(r"Server access error at url (.+)")
_CAUSE = re.compile(r'(?:Exception in thread "main" |Error: )(.+)')


def check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java") if home else shutil.which("java")
    if java is None:
        where = f'JAVA_HOME "{home}"' if home else "the PATH"
        raise StreamtopoError(f"Spark needs Java {JAVA} or newer, and {where} has none; install it, or set JAVA_HOME")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < JAVA:
        found = version[1] if version else f"one that says {said[:80]!r}"
        raise StreamtopoError(f"Spark needs Java {JAVA} or newer, and {java} is {found}; install it, or set JAVA_HOME")


class Java:
    """The process is started with these settings, unless it runs already: for this process, or under spark-submit.

    What it writes to standard error while Spark starts is kept; what comes later is passed on.
    """

    def __init__(self, settings: dict[str, str]) -> None:
        self._kept = bytearray()
        self._started = Event()
        self.gateway: Any = SparkContext._gateway or self._launched(settings)

    def defaults(self) -> SparkConf:
        """What spark-submit, spark-defaults.conf and the settings of the start have set."""
        return SparkConf(_jvm=self.gateway.jvm)

    def started(self) -> None:
        self._started.set()

    def _launched(self, settings: dict[str, str]) -> Any:
        check_java()
        progress = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
        given = SparkConf(loadDefaults=False).setAll(list((progress | settings).items()))
        source, target = os.pipe()
        listening = Thread(target=self._listen, args=(source,), daemon=True)
        listening.start()
        try:
            return launch_gateway(given, {"stderr": target})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            os.close(target)
            target = -1
            listening.join()
            raise StreamtopoError(_why(self._kept.decode(errors="replace"))) from error
        finally:
            if target >= 0:
                os.close(target)

    def _listen(self, source: int) -> None:
        with open(source, "rb", buffering=0) as said:
            while some := said.read(1 << 16):
                if self._started.is_set():
                    os.write(_STANDARD_ERROR, some)
                else:
                    self._kept += some


def _why(said: str) -> str:
    if package := _PACKAGE.search(said):
        name = ":".join(package.groups())
        if unreachable := _UNREACHABLE.search(said):
            return f"Spark cannot fetch {name}: {unreachable[1]}; name a mirror of Maven Central in {REPOSITORY}"
        other = (
            f'; install a PySpark that has one: pip install "pyspark=={WITH_CONNECTOR}"' if "-kafka-" in name else ""
        )
        return f"Spark found no {name} in its repositories{other}"
    causes = _CAUSE.findall(said) or said.strip().splitlines()[-1:] or ["it said nothing"]
    return f"Spark's Java process did not start: {causes[-1]}"
