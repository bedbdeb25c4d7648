"""A worker process of a pool: started, listened to, stopped, and reaped."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from streamtopo.engine.processes.lifeline import PAUSE, RESUME, Reports

Command = Callable[[int], Sequence[str]]
"""From the file descriptor of the lifeline to the command to run."""

_REMEMBERED = 20
"""How many of the last lines of a process to show, if it dies again and again."""
_READ = 1 << 16
_PATIENCE = 5.0
"""Seconds to wait for the end of a process after the end of its lifeline."""


class Child:
    """`say` gets the lines that the process writes to standard error."""

    def __init__(
        self,
        command: Command,
        environment: Mapping[str, str],
        selector: selectors.BaseSelector,
        say: Callable[[str], object],
    ) -> None:
        self.reports = Reports()
        self.last_lines: deque[str] = deque(maxlen=_REMEMBERED)
        self.started = time.monotonic()
        self._silent = False
        self._paused = False
        self._say = say
        self._selector = selector
        self._lifeline, theirs = socket.socketpair()
        with theirs:
            # In its own process group: then Ctrl-C in a terminal only reaches the pool, even before the child has had
            # time to ignore it.
            self._process = subprocess.Popen(
                command(theirs.fileno()),
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        assert self._process.stderr is not None
        self._errors = self._process.stderr.fileno()
        self._reports, self._written = Lines(self.reports.read), Lines(self._pass_on)
        for descriptor, read in ((self._lifeline.fileno(), self._read_report), (self._errors, self._read_errors)):
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ, read)

    @property
    def ended(self) -> bool:
        """The end of the lifeline alone is not enough: processes that user code forked keep it open."""
        return self._silent or self._process.poll() is not None

    @property
    def worked(self) -> bool:
        return self.reports.metrics is not None and self.reports.metrics.records > 0

    def pause(self, paused: bool) -> None:
        """Tell the process, if this is a change."""
        if paused != self._paused:
            with suppress(BlockingIOError, ConnectionError):  # it is notified in the next turn, or has ended
                self._lifeline.send(PAUSE if paused else RESUME)
                self._paused = paused

    def terminate(self) -> None:
        """Also if the process is stopped: then the signal would wait until it continues."""
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self.reap()

    def reap(self) -> int:
        """After its end: read the rest of its output; return the exit code."""
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._read_report()
        self._read_errors()
        self._written.end()
        for descriptor in (self._lifeline.fileno(), self._errors):
            with suppress(KeyError):
                self._selector.unregister(descriptor)
        self._lifeline.close()
        assert self._process.stderr is not None
        self._process.stderr.close()
        return code

    def _read_report(self) -> None:
        self._silent |= _read(self._lifeline.fileno(), self._reports)

    def _read_errors(self) -> None:
        if _read(self._errors, self._written):
            with suppress(KeyError):
                self._selector.unregister(self._errors)

    def _pass_on(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        self.last_lines.append(text)
        self._say(text)


class Lines:
    """Splits bytes into lines."""

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self._take = take
        self._rest = b""

    def add(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line)

    def end(self) -> None:
        if self._rest:
            self._take(self._rest)


def _read(descriptor: int, lines: Lines) -> bool:
    """Read everything that is there; true at the end."""
    while True:
        try:
            data = os.read(descriptor, _READ)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        if not data:
            return True
        lines.add(data)


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
