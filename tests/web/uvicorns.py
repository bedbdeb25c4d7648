"""Services in a real uvicorn, as users start them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.hosting.conftest import until

ROOT = Path(__file__).parents[2]


class Service:
    """uvicorn in a process of its own, with its output."""

    def __init__(self, folder: Path, *options: str, app: str = "apps.wordcount.service:service") -> None:
        """The app can be a module in the directory."""
        command = [sys.executable, "-m", "uvicorn", app, "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--timeout-graceful-shutdown", "1", *options],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": f"{ROOT}:{folder}"},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        until(lambda: re.search(r"running on \S+|rror", self.said))
        found = re.search(r"running on (http\S+)", self.said)
        assert found, self.said
        self.url = found[1]

    def _read(self) -> None:
        assert self.process.stderr
        with self.process.stderr:
            for line in self.process.stderr:
                self.said += line

    def wait_for(self, text: str, times: int = 1) -> None:
        until(lambda: self.said.count(text) >= times or self.process.poll() is not None)
        assert self.said.count(text) >= times, self.said

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self._reader.join(60)
        return code
