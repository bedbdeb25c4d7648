"""One Spark for all tests of a run, if there is a JVM."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).parent
SETTINGS = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
Read = Callable[..., "DataFrame"]


def missing() -> str | None:
    if find_spec("pyspark") is None:
        return 'pyspark is not installed: pip install -e ".[spark]"'
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "there is no Java: install 17 or newer, or set JAVA_HOME"
    return None


MISSING = missing()
collect_ignore_glob = ["test_[!h]*.py", "*/test_*.py"] if MISSING else []  # test_here.py gives the reason


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # PySpark leaves its sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collect garbage within the test that made it: its warnings would be errors in another test."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from streamtopo.spark.session import open_spark

    with open_spark("tests", master="local[2]", settings=SETTINGS) as session:
        yield session


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """Yield a log with a topic "t" of two partitions."""
    log = EmbeddedLog(tmp_path / "log")
    log.create(Topic("t", 2))
    yield log
    log.close()


@pytest.fixture
def read(spark: SparkSession, log: EmbeddedLog) -> Read:
    """Return a function that reads the topic "t" with options."""

    def read(schema: str = "", **options: Any) -> DataFrame:
        reader = spark.read.format("streamtopo").option("path", str(log.path)).option("topic", "t")
        for name, value in options.items():
            reader = reader.option(name, value)
        return (reader.schema(schema) if schema else reader).load()

    return read
