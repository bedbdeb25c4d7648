"""How a command's session is started: what was set elsewhere holds, what Spark says at its start is not shown."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from streamtopo.spark.java import _why
from streamtopo.spark.session import PACKAGES, settings_for

SHOW = """
import json, sys
from streamtopo.spark.session import open_spark
names = ["spark.master", "spark.sql.shuffle.partitions", "spark.sql.session.timeZone", "spark.log.level", "spark.x"]
with open_spark("shown", master=sys.argv[2] if len(sys.argv) > 2 else None, settings=json.loads(sys.argv[1])) as spark:
    conf = spark.sparkContext.getConf()
    print(json.dumps([conf.get(name) for name in names]))
"""
UNRESOLVED = "\t\t:: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found\n{}\nException in thread " + (
    '"main" java.lang.RuntimeException: [unresolved dependency: '
    "org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found]\n\tat org.apache.spark.util.MavenUtils\n"
)


def shown(folder: Path, *command: str, **environment: str) -> tuple[list[str | None], str]:
    """Return the settings of a session in a process of its own, and what that process says on standard error."""
    script = folder / "show.py"
    script.write_text(SHOW)
    environment = {name: value for name, value in os.environ.items() if "SPARK" not in name} | environment
    run = [one.replace("SCRIPT", str(script)) for one in command]
    done = subprocess.run(run, capture_output=True, text=True, env=environment, cwd=Path.cwd(), check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_defaults_are_ours_where_nothing_is_set(tmp_path: Path) -> None:
    settings, said = shown(tmp_path, sys.executable, "SCRIPT", '{"spark.x": "1"}')
    assert settings == ["local[*]", "8", "UTC", "ERROR", "1"]
    assert said == ""


def test_the_defaults_file_holds_except_for_what_the_command_sets(tmp_path: Path) -> None:
    lines = ["spark.master local[3]", "spark.sql.shuffle.partitions 5", "spark.x file", "spark.log.level FATAL"]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    command = [sys.executable, "SCRIPT", '{"spark.x": "command"}']
    settings, _ = shown(tmp_path, *command, SPARK_CONF_DIR=str(tmp_path))
    assert settings == ["local[3]", "5", "UTC", "FATAL", "command"]
    assert shown(tmp_path, *command, "local[1]", SPARK_CONF_DIR=str(tmp_path))[0][0] == "local[1]"


def test_spark_submit_is_respected(tmp_path: Path) -> None:
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    given = ["--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=64", "--conf", "spark.x=1"]
    settings, _ = shown(tmp_path, submit, *given, "SCRIPT", "{}", PYSPARK_PYTHON=sys.executable)
    assert settings == ["local[1]", "64", "UTC", "ERROR", "1"]


def test_a_connector_that_cannot_be_had_is_reported() -> None:
    name = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"
    install = 'install a PySpark that has one: pip install "pyspark==4.0.0"'
    assert _why(UNRESOLVED.format("")) == f"Spark found no {name} in its repositories; {install}"
    needed = UNRESOLVED.format("").replace("-sql-", "-token-provider-")  # what the connector itself needs
    assert _why(needed).endswith(install)
    refused = "\tServer access error at url http://m/x.pom (java.net.ConnectException: Connection refused)"
    assert _why(UNRESOLVED.format(refused)) == (
        f"Spark cannot fetch {name}: http://m/x.pom (java.net.ConnectException: Connection refused); "
        "name a mirror of Maven Central in STREAMTOPO_MAVEN_URL"
    )
    assert _why("Error: Could not create the JVM.\n").endswith("did not start: Could not create the JVM.")


def test_spark_says_itself_which_connector_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHOW, json.dumps({PACKAGES: "org.apache.spark:spark-sql-kafka-0-10_2.13:0.0.0"})]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path.cwd(), check=False)
    assert done.returncode == 1
    assert re.search(r"Error: Spark (found no|cannot fetch) org.apache.spark:spark-sql-\S+:0.0.0", done.stderr), (
        done.stderr
    )


@pytest.mark.parametrize(
    ("given", "packages"),
    [({}, "{}"), ({PACKAGES: "a:b:1"}, "a:b:1,{}"), ({PACKAGES: "x:spark-sql-kafka:1"}, "x:spark-sql-kafka:1,{}")],
)
def test_packages_of_the_user_are_kept(given: dict[str, str], packages: str) -> None:
    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    assert settings_for("kafka://h:9", given)[PACKAGES] == packages.format(connector)
    own = {PACKAGES: "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.1"}
    assert settings_for("kafka://h:9", own) == own
    assert settings_for("embedded:x", own) == own
