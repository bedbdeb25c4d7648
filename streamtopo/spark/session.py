"""The Spark session of commands and tests: as spark-submit and the settings say, else on the cores of this machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtopo.errors import StreamtopoError
from streamtopo.logs.opening import SparkReader, spark_reader
from streamtopo.spark.java import KAFKA, REPOSITORY, Java
from streamtopo.spark.shipping import ship
from streamtopo.spark.source.source import register

DEFAULTS = {"spark.sql.session.timeZone": "UTC", "spark.log.level": "ERROR"}
"""What is set if nobody has set it: on the command line, by spark-submit, or in spark-defaults.conf."""
LOCAL = {"spark.sql.shuffle.partitions": "8"}
"""The same if Spark runs in this process only."""
PACKAGES = "spark.jars.packages"
_PYTHON = "spark.pyspark.python"
_ENVIRONMENT = (
    f"install it there, or send an environment that has it: --conf spark.archives=environment.tar.gz#environment "
    f"--conf {_PYTHON}=environment/bin/python"
)


@contextmanager
def open_spark(
    name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None, modules: Iterable[str] = ()
) -> Iterator[SparkSession]:
    """With the source "streamtopo" known to it; stopped at the end of the block, unless it was there before.

    A cluster is sent this package, and those in which the modules are.
    """
    if (running := SparkSession.getActiveSession()) is not None:
        register(running)
        yield running
        return
    if "SPARK_REMOTE" in os.environ or (master or "").startswith("sc:"):
        raise StreamtopoError(
            "this does not run on Spark Connect; give a --master such as spark://HOST:PORT, and unset SPARK_REMOTE"
        )
    spark = _started({"spark.app.name": name} | ({"spark.master": master} if master else {}) | dict(settings or {}))
    with TemporaryDirectory() as folder:
        try:
            if not str(spark.sparkContext.master).startswith("local"):
                ship(spark.sparkContext, ["streamtopo", *modules], Path(folder))
            register(spark)
            yield spark
        finally:
            spark.stop()


def _started(settings: dict[str, str]) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", settings.get(_PYTHON, sys.executable))
    java = Java(settings)
    conf = java.defaults().setAll(list(settings.items()))
    os.environ["PYSPARK_PYTHON"] = conf.get(_PYTHON, os.environ["PYSPARK_PYTHON"])
    for setting, value in _defaults(conf).items():
        conf.setIfMissing(setting, value)
    SparkContext(conf=conf, gateway=java.gateway)
    java.started()
    return SparkSession.Builder().getOrCreate()


def _defaults(conf: SparkConf) -> Mapping[str, str]:
    return DEFAULTS | (LOCAL if conf.get("spark.master", "local").startswith("local") else {})


def settings_for(log: str, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """These settings, and those that make Spark fetch its own connector, once, for a log on Kafka."""
    settings, packages = dict(given or {}), (given or {}).get(PACKAGES, "")
    if spark_reader(log) is not SparkReader.KAFKA_CONNECTOR or KAFKA in packages:
        return settings
    settings[PACKAGES] = ",".join(filter(None, (packages, f"{KAFKA}:{pyspark.__version__}")))
    if mirror := os.environ.get(REPOSITORY):
        settings.setdefault("spark.jars.repositories", mirror)
    return settings


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
        raise StreamtopoError(f"{what}: {_sentence(error)}") from error


def _sentence(error: PySparkException | Py4JJavaError) -> str:
    text = str(error)
    if ours := re.search(r"streamtopo\.errors\.\w+: (.+)", text):
        return ours[1]
    if absent := re.search(r"No module named '([\w.]+)'", text):
        return f'the Python of Spark\'s tasks has no module "{absent[1]}"; {_ENVIRONMENT}'
    if python := re.search(r'Cannot run program "(.+?)"', text):
        return f'there is no "{python[1]}" where Spark runs its tasks; {_ENVIRONMENT}'
    if cause := re.search(r"Traceback \(most recent call last\):\n(?:\s.*\n)+(\S.*)", text):
        return cause[1]
    lines = [line.removeprefix(": ") for line in text.splitlines() if line.strip()]
    if isinstance(error, Py4JJavaError):
        lines = lines[1:]  # the first line only names the call
    return lines[0] if lines else repr(error)
