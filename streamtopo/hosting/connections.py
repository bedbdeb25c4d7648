"""Connections to other processes, kept for the next question: to open one takes longer than an answer."""

from __future__ import annotations

import http.client
from collections import defaultdict
from collections.abc import Container, Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

_PATIENCE = 10.0
"""Seconds to wait for another process's answer."""
_KEPT = 32
"""For each process at most."""


class Answered(NamedTuple):
    status: int
    body: bytes
    headers: http.client.HTTPMessage


class Connections:
    """For any thread. Questions change nothing, so one may be asked twice."""

    def __init__(self) -> None:
        self._idle: defaultdict[str, list[http.client.HTTPConnection]] = defaultdict(list)
        self._closed = False

    def post(self, address: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answered:
        """The address may have a path of its own. Redirects are not followed."""
        url, idle = urlsplit(address), self._idle[address]
        while True:
            try:
                connection, fresh = idle.pop(), False
            except IndexError:
                kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
                connection, fresh = kind(url.hostname or "", url.port, timeout=_PATIENCE), True
            try:
                connection.request("POST", url.path.rstrip("/") + path, body, dict(headers))
                response = connection.getresponse()
                answer = response.read()
            except BaseException as error:
                connection.close()
                if fresh or not isinstance(error, ConnectionError):
                    raise
                continue  # the other end has closed it since the last question
            if len(idle) < _KEPT and not self._closed:
                idle.append(connection)
            else:
                connection.close()
            return Answered(response.status, answer, response.headers)

    def forget_others(self, addresses: Container[str]) -> None:
        """Close what is kept for processes that are gone: nobody would ask them again, and find out."""
        for address in list(self._idle):
            if address not in addresses:
                _close(self._idle[address])

    def close(self) -> None:
        """Those that are in use just now are closed behind their answer."""
        self._closed = True
        for idle in list(self._idle.values()):
            _close(idle)


def _close(idle: list[http.client.HTTPConnection]) -> None:
    while idle:
        with suppress(IndexError):  # another thread has taken the last one
            idle.pop().close()
