"""A server with limited connections and timeouts, so that it leaves the engine enough file descriptors."""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MAX_CONNECTIONS = 1000
"""Maximum number of connections, if the process can open enough files."""
_FILE_SHARE = 4
"""At most one in this many of the files that the process can open may be a connection."""
_TIMEOUT = 10.0
"""Seconds for receiving a request, from the connection or its first byte on; and for a client to read anything."""
_MAX_HEADER_BYTES = 64_000
"""Maximum bytes of a request before its body."""
_BACKLOG = 128
"""Connections that the system queues until they are accepted."""
_PAUSE = 0.1
"""Seconds until the next attempt if there was no free file descriptor."""


def max_connections() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(_MAX_CONNECTIONS, soft // _FILE_SHARE))


class LimitedServer(uvicorn.Server):
    """Accepts connections itself, one by one: asyncio would accept all waiting ones before it handles the first.

    At the limit, the connection that has been idle longest is closed for a new one; if none is idle, new ones wait to
    be accepted.
    """

    def __init__(self, config: uvicorn.Config, limit: int | None = None) -> None:
        super().__init__(config)
        self._limit = limit or max_connections()
        self._open = 0
        self._idle: dict[Connection, None] = {}
        """Idle connections, in the order in which they became idle."""
        self._listening: Sequence[socket.socket] = ()
        self._accepting = False
        self._starting: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self._loop = asyncio.get_running_loop()
        self._listening = sockets or []
        for one in self._listening:
            one.setblocking(False)
            one.listen(_BACKLOG)
        self._accept_more(True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._accept_more(False)
        self._listening = ()
        await super().shutdown(sockets)

    # -- for connections

    def became_idle(self, connection: Connection) -> None:
        self._idle[connection] = None
        self._accept_more(True)

    def became_busy(self, connection: Connection) -> None:
        self._idle.pop(connection, None)

    def was_closed(self, connection: Connection) -> None:
        self._idle.pop(connection, None)
        self._connection_closed()

    # -- inside

    def _accept_more(self, wanted: bool) -> None:
        if wanted == self._accepting:
            return
        self._accepting = wanted and bool(self._listening)
        for one in self._listening:
            if wanted:
                self._loop.add_reader(one, self._accept, one)
            else:
                self._loop.remove_reader(one)

    def _accept(self, listening: socket.socket) -> None:
        if self._open >= self._limit and not self._close_one():
            self._accept_more(False)
            return
        try:
            connected, _ = listening.accept()
        except (BlockingIOError, ConnectionError):  # the client is gone, or another process has accepted it
            return
        except OSError:  # there is no free file descriptor
            self._close_one()
            self._accept_more(False)
            self._loop.call_later(_PAUSE, self._accept_more, True)
            return
        connected.setblocking(False)
        self._open += 1
        starting = self._loop.create_task(self._start(connected))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)

    async def _start(self, connected: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: Connection(self), connected)
        except OSError:
            connected.close()
            self._connection_closed()

    def _close_one(self) -> bool:
        """Close the connection that has been idle longest; return False if none is idle."""
        oldest = next(iter(self._idle), None)
        if oldest is None:
            return False
        del self._idle[oldest]
        oldest.transport.abort()
        return True

    def _connection_closed(self) -> None:
        self._open -= 1
        self._accept_more(True)


class Connection(HttpToolsProtocol):
    """Closes if a request takes too long to arrive or its answer is not read; in between, uvicorn's timeout is used."""

    def __init__(self, server: LimitedServer) -> None:
        super().__init__(server.config, server.server_state, server.lifespan.state)
        self._server = server
        self._receive_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._request_complete = True
        """Whether the last request has arrived completely."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_receive_timer()
        self._server.became_idle(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_receive_timer()
        self._server.was_closed(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._check_reader(sys.maxsize)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._send_timer is not None:
            self._send_timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._header_bytes += len(data)
        super().data_received(data)
        if self._header_bytes > _MAX_HEADER_BYTES and not self.transport.is_closing():
            self.transport.abort()
        elif not self._request_complete:
            self._start_receive_timer()

    def on_message_begin(self) -> None:
        self._request_complete = False
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        self._header_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._header_bytes, self._request_complete = 0, True
        self._cancel_receive_timer()
        if not self.cycle.response_complete:
            self._server.became_busy(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._server.became_idle(self)

    def _check_reader(self, before: int) -> None:
        """Abort if the client has read nothing since the last check."""
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._send_timer = self.loop.call_later(_TIMEOUT, self._check_reader, left)
        else:
            self.transport.abort()

    def _start_receive_timer(self) -> None:
        if self._receive_timer is None:
            self._receive_timer = self.loop.call_later(_TIMEOUT, self.transport.abort)

    def _cancel_receive_timer(self) -> None:
        if self._receive_timer is not None:
            self._receive_timer.cancel()
            self._receive_timer = None
