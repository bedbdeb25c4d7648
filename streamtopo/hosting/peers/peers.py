"""Rows of other processes: the log says which process has them, and that process is queried."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson

from streamtopo.engine.plan import Plan
from streamtopo.hosting.answers import NotOwner, QueryError, Restoring
from streamtopo.hosting.peers.http_client import HttpAnswer, HttpClient
from streamtopo.hosting.peers.local_sockets import LOCAL, SocketClient
from streamtopo.hosting.peers.protocol import PAGE, PATH, bounds_to_json, decode, decode_or_none, encode
from streamtopo.hosting.peers.signing import ANSWER_HEADER, Signatures
from streamtopo.hosting.queries.local_rows import LocalRows
from streamtopo.hosting.queries.scanning import RowIterator, ScanBounds, StorePart
from streamtopo.logs import GroupState
from streamtopo.records import TopicPartition

Result = TypeVar("Result")
ReadGroup = Callable[[str], GroupState | None]
_REFUSED = (http.client.UNAUTHORIZED, http.client.FORBIDDEN, http.client.MISDIRECTED_REQUEST)
"""The statuses for a wrong token, wrong clocks, an older version, or a host name that is not allowed."""
_OWNERS_VALID = 0.05
"""Seconds for which the owners of partitions are cached."""


class _Unavailable(Exception):
    """The worker with the rows is starting or stopping, is not reachable through its proxy, or refuses to answer."""


class _Untrusted(Exception):
    """The answer may not be from a worker of the group."""


class LocalOrRemoteRows:
    """Rows of this process if it has them, else those of the process that has them."""

    def __init__(self, local: LocalRows, peers: Peers) -> None:
        self._local = local
        self._peers = peers

    def get(self, part: StorePart, key: bytes) -> bytes | None:
        try:
            return self._local.get(part, key)
        except NotOwner:
            return self._peers.get(part, key)

    def scan(self, part: StorePart, bounds: ScanBounds) -> RowIterator:
        try:
            return self._local.scan(part, bounds)
        except NotOwner:
            return self._peers.scan(part, bounds)

    def time(self, part: StorePart) -> int:
        try:
            return self._local.time(part)
        except NotOwner:
            return self._peers.time(part)


class Peers:
    """Queries other processes. `address` is that of this process, which does not ask itself."""

    def __init__(
        self, read_group: ReadGroup, group: str, plan: Callable[[], Plan], address: str = "", token: str | None = None
    ) -> None:
        self._read_group = read_group
        self._group = group
        self._plan = plan
        self.address = address
        self._signatures = Signatures(token) if token else None
        self._cached_owners: tuple[float, dict[TopicPartition, str]] = (0.0, {})
        self._lock = threading.Lock()
        self._http = HttpClient()
        self._sockets = SocketClient()

    def get(self, part: StorePart, key: bytes) -> bytes | None:
        return self._ask(
            part, {"key": encode(key), "alone": part.only_here}, lambda answer: decode_or_none(answer["row"])
        )

    def scan(self, part: StorePart, bounds: ScanBounds) -> RowIterator:
        """Return the rows, fetched page by page, each as of its own moment; the first page is fetched at once."""
        first = self._page(part, bounds)

        def rows() -> RowIterator:
            page, rest = first, bounds
            while True:
                yield from page
                if len(page) < PAGE:
                    return
                rest = rest.after(page[-1][0])
                page = self._page(part, rest)

        return rows()

    def _page(self, part: StorePart, bounds: ScanBounds) -> list[tuple[bytes, bytes]]:
        def pairs(answer: dict[str, Any]) -> list[tuple[bytes, bytes]]:
            return [(decode(key), decode(row)) for key, row in answer["rows"]]

        return self._ask(part, {"span": bounds_to_json(bounds)}, pairs)

    def time(self, part: StorePart) -> int:
        return self._ask(part, {"time": True}, lambda answer: int(answer["time"]))

    def _ask(self, part: StorePart, question: dict[str, Any], read: Callable[[dict[str, Any]], Result]) -> Result:
        address = self._owner(part)
        if address is None:
            raise NotOwner(part.store, part.task.partition)
        if address == self.address:  # assigned to this process, but not opened yet
            raise Restoring(part.store, part.task.partition)
        try:
            body = self._post(address, {"store": part.store, "partition": part.task.partition, **question})
        except (
            OSError,
            UnicodeError,
            http.client.HTTPException,
            _Unavailable,
        ) as error:  # UnicodeError: an address that is not a valid host name
            self._cached_owners = (0.0, {})
            reason = f"{address} has it, but does not answer ({error or type(error).__name__})"
            raise NotOwner(part.store, part.task.partition, address, reason) from error
        except _Untrusted as error:
            raise NotOwner(part.store, part.task.partition, None, f"{address} has it, but {error}") from error
        return self._parsed(body, address, part, read)

    def _parsed(self, body: bytes, address: str, part: StorePart, read: Callable[[dict[str, Any]], Result]) -> Result:
        try:
            answer = orjson.loads(body)
            if "error" in answer:
                raise QueryError(f"{address} answered: {answer['error']}")
            if answer.get("refused") == "restoring":
                raise Restoring(part.store, part.task.partition, int(answer["done"]), int(answer["total"]))
            if "refused" in answer:
                raise NotOwner(part.store, part.task.partition, address, f"{address} had it, but no longer has it")
            return read(answer)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"{address} has it, but its answer cannot be read; check that it is a worker of the same version"
            raise NotOwner(part.store, part.task.partition, None, reason) from error

    def _owner(self, part: StorePart) -> str | None:
        """Return the address of the worker that has the task's partitions, or of any worker if all have the rows."""
        topics, owners = self._plan().part(part.task.subtopology).topics, self.owners()
        if not topics:
            return next((address for address in owners.values() if address != self.address), None)
        addresses = (owners.get(TopicPartition(topic, part.task.partition)) for topic in topics)
        return next((address for address in addresses if address), None)

    def owners(self) -> dict[TopicPartition, str]:
        """Return the addresses of the workers that answer, by their partitions, as of a moment ago."""
        with self._lock:
            until, owners = self._cached_owners
            if time.monotonic() > until:
                state = self._read_group(self._group)
                owners = (
                    {}
                    if state is None
                    else {
                        partition: state.addresses[member]
                        for member, partitions in state.members.items()
                        if is_address(state.addresses.get(member, ""))
                        for partition in partitions
                    }
                )
                self._cached_owners = (time.monotonic() + _OWNERS_VALID, owners)
                self._http.keep_only(set(owners.values()))
                self._sockets.keep_only(set(owners.values()))
            return owners

    def _post(self, address: str, question: dict[str, Any]) -> bytes:
        body, headers = orjson.dumps(question), {"Content-Type": "application/json"}
        if address.startswith(LOCAL):  # only processes of the same user can listen there
            return self._sockets.ask(address, body)
        if self._signatures:
            headers["Authorization"] = self._signatures.sign_question(address, PATH, body)
        answer = self._http.post(address, PATH, body, headers)
        if answer.status != http.client.OK:
            reason = f"status {answer.status}{_reason(answer)}"
            if answer.status >= http.client.INTERNAL_SERVER_ERROR or answer.status in _REFUSED:
                raise _Unavailable(reason)
            raise QueryError(f"{address} answered {reason}")
        signature = answer.headers.get(ANSWER_HEADER, "")
        if self._signatures and not self._signatures.verify_answer(signature, headers["Authorization"], answer.body):
            raise _Untrusted("does not know the token of this group, so its answer is not used")
        return answer.body

    def close(self) -> None:
        self._http.close()
        self._sockets.close()


def _reason(answer: HttpAnswer) -> str:
    """Return the worker's explanation of its status, but not the HTML page of a proxy."""
    if answer.headers.get_content_type() == "text/html":
        return ""
    return f": {answer.body[:200].decode(errors='replace')}"


def is_address(text: str) -> bool:
    """Return whether a worker could have this address: any member of the group can claim one."""
    if text.startswith(LOCAL):  # only in the embedded log, where all writers are on this machine
        return True
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and not url.query + url.fragment
    except ValueError:
        return False
