"""An HTTP client for questions to other processes. It reuses connections: opening one takes longer than an answer."""

from __future__ import annotations

import http.client
from collections import defaultdict
from collections.abc import Container, Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

_TIMEOUT = 10.0
"""Seconds to wait for an answer."""
_MAX_IDLE = 32
"""Maximum number of idle connections for each process."""


class HttpAnswer(NamedTuple):
    status: int
    body: bytes
    headers: http.client.HTTPMessage


class HttpClient:
    """Can be used from any thread. Questions change nothing, so one can be repeated."""

    def __init__(self) -> None:
        self._idle: defaultdict[str, list[http.client.HTTPConnection]] = defaultdict(list)
        self._closed = False

    def post(self, address: str, path: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Send a request and return its answer. The address may include a path. Redirects are not followed."""
        url, idle = urlsplit(address), self._idle[address]
        while True:
            try:
                connection, fresh = idle.pop(), False
            except IndexError:
                kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
                connection, fresh = kind(url.hostname or "", url.port, timeout=_TIMEOUT), True
            try:
                connection.request("POST", url.path.rstrip("/") + path, body, dict(headers))
                response = connection.getresponse()
                answer = response.read()
            except BaseException as error:
                connection.close()
                if fresh or not isinstance(error, ConnectionError):
                    raise
                continue  # the other end has closed it since the last question
            if len(idle) < _MAX_IDLE and not self._closed:
                idle.append(connection)
            else:
                connection.close()
            return HttpAnswer(response.status, answer, response.headers)

    def keep_only(self, addresses: Container[str]) -> None:
        """Close the idle connections to all other addresses: their processes are gone and will not be asked again."""
        for address in list(self._idle):
            if address not in addresses:
                _close(self._idle[address])

    def close(self) -> None:
        """Close all connections; those in use are closed after their answer."""
        self._closed = True
        for idle in list(self._idle.values()):
            _close(idle)


def _close(idle: list[http.client.HTTPConnection]) -> None:
    while idle:
        with suppress(IndexError):  # another thread has taken the last one
            idle.pop().close()
