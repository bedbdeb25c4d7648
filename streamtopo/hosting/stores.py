"""All stores of a topology, to be asked: here, and wherever else the log says that their rows are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from streamtopo.engine.plan import Plan
from streamtopo.engine.worker import Worker
from streamtopo.hosting.asking import AsyncQuery
from streamtopo.hosting.committed import Committed
from streamtopo.hosting.neighbours import Answering
from streamtopo.hosting.peers import GroupOf, Peers, Wherever, answered
from streamtopo.hosting.query import Query
from streamtopo.hosting.waiting import Patience, Watch

logger = logging.getLogger("streamtopo")

_AT_ONCE = 64
"""Questions of loops that threads see to. One that asks a process that hangs takes seconds, so there are many."""


class Stores:
    """`address` and `token` are those of this process, and the token of its group."""

    def __init__(
        self,
        group: str,
        plan: Callable[[], Plan],
        workers: Callable[[], Sequence[Worker]],
        group_of: GroupOf,
        *,
        address: str = "",
        token: str | None = None,
    ) -> None:
        self.plan = plan
        self.address = address
        self.local = Committed(workers)
        self._peers = Peers(group_of, group, plan, address, token)
        self._wherever = Wherever(self.local, self._peers)
        self._moves = Watch(lambda: (self.local.tasks(), self._peers.owners()))
        self._threads: ThreadPoolExecutor | None = None
        self._answering: Answering | None = None

    def query(self, store: str, wait: str | int = 0, partition: int | None = None) -> Query:
        return Query(self.plan, self._wherever, store, Patience(self._moves, wait), partition)

    def answer_neighbours(self) -> str:
        """The address at which processes of this machine find these rows from now on; "" if there can be none."""
        if self._answering is None:
            try:
                self._answering = Answering(lambda question: answered(self.local, self.plan, question))
            except OSError as error:  # the path of the temporary directory may be too long for a socket
                logger.warning("no other process can ask this one for rows: %s; set another TMPDIR", error)
                return ""
            self._peers.address = self._answering.address
        return self._answering.address

    def close(self) -> None:
        answering, self._answering = self._answering, None
        if answering is not None:
            answering.close()
        self._peers.close()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    def query_async(self, store: str, wait: str | int = 0, partition: int | None = None) -> AsyncQuery:
        near = Query(self.plan, self.local, store, None, partition)
        far = Query(self.plan, self._wherever, store, None, partition)
        return AsyncQuery(near, far, Patience(self._moves, wait), self._asking)

    def _asking(self) -> ThreadPoolExecutor:
        """Not the loop's own threads, which are few, and which the service needs for other things."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_AT_ONCE, "streamtopo query")
        return self._threads
