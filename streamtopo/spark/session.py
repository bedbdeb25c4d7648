"""The Spark session of commands and tests: on the cores of this machine unless another master is given."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyspark
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.logs.opening import SparkReader, spark_reader
from streamtopo.spark.source.source import register

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13"
REPOSITORY = "STREAMTOPO_MAVEN_URL"
"""The url of a mirror of Maven Central, for machines that cannot reach it."""
JAVA = 17


@contextmanager
def open_spark(
    name: str, *, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """With the source "streamtopo" known to it; stopped at the end of the block, unless it was there before."""
    if (running := SparkSession.getActiveSession()) is not None:
        register(running)
        yield running
        return
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().appName(name).master(master)
    for setting, value in (SETTINGS | dict(settings or {})).items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    register(spark)
    try:
        yield spark
    finally:
        spark.stop()


def settings_for(log: str) -> dict[str, str]:
    """Spark's own connector for a log on Kafka; Spark fetches it, once."""
    if spark_reader(log) is not SparkReader.KAFKA_CONNECTOR:
        return {}
    mirror = os.environ.get(REPOSITORY)
    found = {"spark.jars.packages": f"{KAFKA}:{pyspark.__version__}"}
    return found | ({"spark.jars.repositories": mirror} if mirror else {})


@contextmanager
def explained(what: str) -> Iterator[None]:
    """An error of Spark, or of its Python processes, in one sentence; its cause has the details."""
    try:
        yield
    except OSError as error:
        raise StreamtopoError(
            f'{what}: "{error.filename}": {error.strerror}' if error.filename else f"{what}: {error}"
        ) from error
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        ours = re.search(r"streamtopo\.errors\.\w+: (.+)", text)
        lines = [line.removeprefix(": ") for line in text.splitlines() if line.strip()]
        if isinstance(error, Py4JJavaError):
            lines = lines[1:]  # the first line only names the call
        raise StreamtopoError(f"{what}: {ours[1] if ours else lines[0] if lines else repr(error)}") from error


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
