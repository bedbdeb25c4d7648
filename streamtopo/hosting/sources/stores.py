"""Queries of all stores of a topology, with rows in this process and in others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from streamtopo.engine.plan import Plan
from streamtopo.engine.worker.worker import Worker
from streamtopo.hosting.peers.local_sockets import SocketServer
from streamtopo.hosting.peers.peers import LocalOrRemoteRows, Peers, ReadGroup
from streamtopo.hosting.peers.protocol import answer_bytes
from streamtopo.hosting.queries.async_query import AsyncQuery
from streamtopo.hosting.queries.local_rows import LocalRows
from streamtopo.hosting.queries.query import Query
from streamtopo.hosting.queries.waiting import CurrentFailure, Poller, Retry

logger = logging.getLogger("streamtopo")

_MAX_THREADS = 64
"""Number of threads for queries of event loops. Many, because a query of a hanging process takes seconds."""


class Stores:
    """`address` is that of this process, `token` that of its group."""

    def __init__(
        self,
        group: str,
        plan: Callable[[], Plan],
        workers: Callable[[], Sequence[Worker]],
        read_group: ReadGroup,
        *,
        address: str = "",
        token: str | None = None,
        failure: CurrentFailure = lambda: None,
    ) -> None:
        self.plan = plan
        self._failure = failure
        self.address = address
        self.local = LocalRows(workers)
        self._peers = Peers(read_group, group, plan, address, token)
        self._rows = LocalOrRemoteRows(self.local, self._peers)
        self._changes = Poller(lambda: (self.local.tasks(), self._peers.owners()))
        self._threads: ThreadPoolExecutor | None = None
        self._socket_server: SocketServer | None = None

    def query(self, store: str, wait: str | int = 0, partition: int | None = None) -> Query:
        return Query(self.plan, self._rows, store, Retry(self._changes, wait, self._failure), partition)

    def serve_local_processes(self) -> str:
        """Start to serve rows to processes of this machine. Return the address, or "" if that is not possible."""
        if self._socket_server is None:
            try:
                self._socket_server = SocketServer(lambda question: answer_bytes(self.local, self.plan, question))
            except OSError as error:  # the path of the temporary directory may be too long for a socket
                logger.warning("other processes cannot query this one: %s; set another TMPDIR", error)
                return ""
            self._peers.address = self._socket_server.address
        return self._socket_server.address

    def close(self) -> None:
        server, self._socket_server = self._socket_server, None
        if server is not None:
            server.close()
        self._peers.close()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    def query_async(self, store: str, wait: str | int = 0, partition: int | None = None) -> AsyncQuery:
        local = Query(self.plan, self.local, store, None, partition)
        anywhere = Query(self.plan, self._rows, store, None, partition)
        return AsyncQuery(local, anywhere, Retry(self._changes, wait, self._failure), self._executor)

    def _executor(self) -> ThreadPoolExecutor:
        """Threads of its own: the loop's default threads are few, and the service needs them."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_MAX_THREADS, "streamtopo query")
        return self._threads
