"""The Spark that commands and tests use: on this machine's cores unless another master is named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.spark.source import register

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
JAVA = 17


@contextmanager
def open_spark(
    name: str, *, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """With the source "streamtopo" known to it, and stopped at the end of the block."""
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


def check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java") if home else shutil.which("java")
    if java is None:
        where = f'JAVA_HOME "{home}"' if home else "the PATH"
        raise StreamtopoError(f"Spark needs Java {JAVA} or newer, and {where} has none; install it, or set JAVA_HOME")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA:
        found = version[1] if version else f"one that says {said[:80]!r}"
        raise StreamtopoError(f"Spark needs Java {JAVA} or newer, and {java} is {found}; install it, or set JAVA_HOME")
