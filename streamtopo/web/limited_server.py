"""A server that leaves the engine its file descriptors: few connections, and none that only waits."""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST = 1000
"""Most connections at once, if the process may open enough files."""
_SHARE = 4
"""Connections may be one in this many of the files that the process may open."""
_PATIENCE = 10.0
"""Seconds for a request to come in, from the connection or its first byte on; and for a client to read anything."""
_MOST_HEAD = 64_000
"""Bytes of a request before its body."""
_WAITING = 128
"""Connections that the system keeps until they are accepted."""
_PAUSE = 0.1
"""Seconds until the next attempt, where no descriptor was left."""


def most_connections() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else max(1, min(_MOST, soft // _SHARE))


class LimitedServer(uvicorn.Server):
    """Accepts connections itself, one by one: asyncio would take all there are before it looks at the first.

    When there are as many as it may have, the one that is idle for longest is closed for a new one; if all are being
    answered, new ones wait outside.
    """

    def __init__(self, config: uvicorn.Config, most: int | None = None) -> None:
        super().__init__(config)
        self._most = most or most_connections()
        self._open = 0
        self._idle: dict[Connection, None] = {}
        """In the order in which they became idle."""
        self._listening: Sequence[socket.socket] = ()
        self._accepting = False
        self._beginning: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self._loop = asyncio.get_running_loop()
        self._listening = sockets or []
        for one in self._listening:
            one.setblocking(False)
            one.listen(_WAITING)
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

    def ended(self, connection: Connection) -> None:
        self._idle.pop(connection, None)
        self._left()

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
        if self._open >= self._most and not self._close_one():
            self._accept_more(False)
            return
        try:
            connected, _ = listening.accept()
        except (BlockingIOError, ConnectionError):  # it is gone again, or another process has it
            return
        except OSError:  # no descriptor is left
            self._close_one()
            self._accept_more(False)
            self._loop.call_later(_PAUSE, self._accept_more, True)
            return
        connected.setblocking(False)
        self._open += 1
        beginning = self._loop.create_task(self._begin(connected))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)

    async def _begin(self, connected: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: Connection(self), connected)
        except OSError:
            connected.close()
            self._left()

    def _close_one(self) -> bool:
        """The one that is idle for longest, if there is any."""
        oldest = next(iter(self._idle), None)
        if oldest is None:
            return False
        del self._idle[oldest]
        oldest.transport.abort()
        return True

    def _left(self) -> None:
        self._open -= 1
        self._accept_more(True)


class Connection(HttpToolsProtocol):
    """Closed if a request takes too long to come in, or nobody reads the answer; in between uvicorn's limit holds."""

    def __init__(self, server: LimitedServer) -> None:
        super().__init__(server.config, server.server_state, server.lifespan.state)
        self._server = server
        self._late: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._head = 0
        self._whole = True
        """Whether all of the last request is here."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()
        self._server.became_idle(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._in_time()
        self._server.ended(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader(sys.maxsize)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        super().data_received(data)
        if self._head > _MOST_HEAD and not self.transport.is_closing():
            self.transport.abort()
        elif not self._whole:
            self._expect()

    def on_message_begin(self) -> None:
        self._whole = False
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        self._head = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head, self._whole = 0, True
        self._in_time()
        if not self.cycle.response_complete:
            self._server.became_busy(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._server.became_idle(self)

    def _wait_for_reader(self, before: int) -> None:
        """As long as some of what is to be sent goes away, however little."""
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._unread = self.loop.call_later(_PATIENCE, self._wait_for_reader, left)
        else:
            self.transport.abort()

    def _expect(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(_PATIENCE, self.transport.abort)

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
