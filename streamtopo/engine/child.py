"""A worker process as its pool sees it: started, listened to, told to stop, buried."""

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

from streamtopo.engine.lifeline import PAUSE, RESUME, Heard

Command = Callable[[int], Sequence[str]]
"""From the descriptor of its lifeline to what is to be run."""

_REMEMBERED = 20
"""Lines that a process wrote last, to be shown if it dies again and again."""
_READ = 1 << 16
_PATIENCE = 5.0
"""Seconds from the end of a lifeline to the end of its process."""


class Child:
    """`say` is given the lines that the process writes to its standard error."""

    def __init__(
        self,
        command: Command,
        environment: Mapping[str, str],
        selector: selectors.BaseSelector,
        say: Callable[[str], object],
    ) -> None:
        self.heard = Heard()
        self.last_words: deque[str] = deque(maxlen=_REMEMBERED)
        self.started = time.monotonic()
        self._silent = False
        self._paused = False
        self._say = say
        self._selector = selector
        self._lifeline, theirs = socket.socketpair()
        with theirs:
            # In a process group of its own, so that a terminal's Ctrl-C comes to the pool alone, even before the
            # child has had the time to ignore it.
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
        self._reports, self._written = Lines(self.heard.hear), Lines(self._pass_on)
        for descriptor, read in ((self._lifeline.fileno(), self._read_report), (self._errors, self._read_errors)):
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ, read)

    @property
    def ended(self) -> bool:
        """Its end of the lifeline may outlive it: processes that user code forked have it too."""
        return self._silent or self._process.poll() is not None

    @property
    def worked(self) -> bool:
        return self.heard.metrics is not None and self.heard.metrics.records > 0

    def pause(self, paused: bool) -> None:
        """Tell it, if that is news to it."""
        if paused != self._paused:
            with suppress(BlockingIOError, ConnectionError):  # it is told in the next turn, or is gone
                self._lifeline.send(PAUSE if paused else RESUME)
                self._paused = paused

    def terminate(self) -> None:
        """Also if somebody has stopped it: the signal would wait for it to go on."""
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self.bury()

    def bury(self) -> int:
        """After its end: hear the rest, and learn how it ended."""
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
        self.last_words.append(text)
        self._say(text)


class Lines:
    """Bytes as they come, handed on line by line."""

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
    """All there is; true at the end."""
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
