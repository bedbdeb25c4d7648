"""A standalone cluster of Spark on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[2]


@contextmanager
def cluster(folder: Path, *prefix: str, workers: int = 2, path: str = str(ROOT)) -> Iterator[str]:
    """Run a master, and workers with this PYTHONPATH, behind a prefix command if one is given; yield its URL."""
    spark_class, port = str(Path(pyspark.__file__).parent / "bin" / "spark-class"), _free_port()
    master = f"spark://127.0.0.1:{port}"
    options = ["--host", "127.0.0.1", "--webui-port", "0"]
    where = [spark_class, "org.apache.spark.deploy.master.Master", *options, "--port", str(port)]
    worker = [*prefix, spark_class, "org.apache.spark.deploy.worker.Worker", *options, "-c", "1", "-m", "1g", master]
    with ExitStack() as stack:
        stack.enter_context(_started(folder, path, "New state: ALIVE", where))
        for _ in range(workers):
            stack.enter_context(_started(folder, path, "Successfully registered with master", worker))
        yield master


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def _started(folder: Path, path: str, text: str, command: list[str]) -> Iterator[Path]:
    """Start a process of Spark's; yield once it has printed this text."""
    log_file = folder / f"{len(list(folder.glob('*.log')))}.log"
    environment = os.environ | {"PYTHONPATH": path, "SPARK_WORKER_DIR": str(folder)}
    with log_file.open("w") as out:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while text not in log_file.read_text():
            assert process.poll() is None, log_file.read_text()
            assert time.monotonic() < deadline, log_file.read_text()
        yield log_file
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
