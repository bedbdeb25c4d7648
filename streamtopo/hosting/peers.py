"""Rows of other processes: who has them is in the log, and whoever has them is asked over HTTP."""

from __future__ import annotations

import http.client
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson

from streamtopo.engine.plan import Plan
from streamtopo.engine.task import TaskId
from streamtopo.errors import StreamtopoError
from streamtopo.hosting.answers import NotOwner, QueryError, Restoring
from streamtopo.hosting.committed import Committed
from streamtopo.hosting.connections import Answered, Connections
from streamtopo.hosting.neighbours import LOCAL, Neighbours
from streamtopo.hosting.query import known
from streamtopo.hosting.signing import ANSWER, Signatures
from streamtopo.hosting.spans import Place, Rows, Span
from streamtopo.logs import GroupState
from streamtopo.records import TopicPartition
from streamtopo.stores.extent import Extent

Result = TypeVar("Result")
GroupOf = Callable[[str], GroupState | None]
PATH = "/rows"
PAGE = 1000
"""Rows of one answer at most."""
_REFUSED = (http.client.UNAUTHORIZED, http.client.FORBIDDEN, http.client.MISDIRECTED_REQUEST)
"""What another token, other clocks, an older version or a name that is not allowed is answered with."""
_FRESH = 0.05
"""Seconds for which it is remembered who has what."""


class _NotNow(Exception):
    """The worker that has the rows starts, ends, cannot be reached through its proxy, or refuses to answer."""


class _NotBelieved(Exception):
    """The one that answered may not be a worker of the group."""


class Wherever:
    """The rows of this process if it has them, else those of the process that does."""

    def __init__(self, local: Committed, peers: Peers) -> None:
        self._local = local
        self._peers = peers

    def get(self, place: Place, key: bytes) -> bytes | None:
        try:
            return self._local.get(place, key)
        except NotOwner:
            return self._peers.get(place, key)

    def scan(self, place: Place, span: Span) -> Rows:
        try:
            return self._local.scan(place, span)
        except NotOwner:
            return self._peers.scan(place, span)

    def time(self, place: Place) -> int:
        try:
            return self._local.time(place)
        except NotOwner:
            return self._peers.time(place)


class Peers:
    """`address` is where this process itself answers, so that it does not ask itself."""

    def __init__(
        self, group_of: GroupOf, group: str, plan: Callable[[], Plan], address: str = "", token: str | None = None
    ) -> None:
        self._group_of = group_of
        self._group = group
        self._plan = plan
        self.address = address
        self._signatures = Signatures(token) if token else None
        self._known: tuple[float, dict[TopicPartition, str]] = (0.0, {})
        self._lock = threading.Lock()
        self._connections = Connections()
        self._neighbours = Neighbours()

    def get(self, place: Place, key: bytes) -> bytes | None:
        return self._ask(place, {"key": _text(key), "alone": place.alone}, lambda answer: _bytes(answer["row"]))

    def scan(self, place: Place, span: Span) -> Rows:
        """Page by page, each as of its own moment; the first is fetched at once."""
        first = self._page(place, span)

        def rows() -> Rows:
            page, rest = first, span
            while True:
                yield from page
                if len(page) < PAGE:
                    return
                rest = rest.after(page[-1][0])
                page = self._page(place, rest)

        return rows()

    def _page(self, place: Place, span: Span) -> list[tuple[bytes, bytes]]:
        def pairs(answer: dict[str, Any]) -> list[tuple[bytes, bytes]]:
            return [(_data(key), _data(row)) for key, row in answer["rows"]]

        return self._ask(place, {"span": _told(span)}, pairs)

    def time(self, place: Place) -> int:
        return self._ask(place, {"time": True}, lambda answer: int(answer["time"]))

    def _ask(self, place: Place, question: dict[str, Any], read: Callable[[dict[str, Any]], Result]) -> Result:
        address = self._owner(place)
        if address is None:
            raise NotOwner(place.store, place.task.partition)
        if address == self.address:  # given to us, and not opened yet
            raise Restoring(place.store, place.task.partition)
        try:
            body = self._post(address, {"store": place.store, "partition": place.task.partition, **question})
        except (
            OSError,
            UnicodeError,
            http.client.HTTPException,
            _NotNow,
        ) as error:  # a name may be none that can be sent
            self._known = (0.0, {})
            said = f"{address} has it, and does not answer ({error or type(error).__name__})"
            raise NotOwner(place.store, place.task.partition, address, said) from error
        except _NotBelieved as error:
            raise NotOwner(place.store, place.task.partition, None, f"{address} has it, and {error}") from error
        return self._understood(body, address, place, read)

    def _understood(self, body: bytes, address: str, place: Place, read: Callable[[dict[str, Any]], Result]) -> Result:
        try:
            answer = orjson.loads(body)
            if "error" in answer:
                raise QueryError(f"{address} answered: {answer['error']}")
            if answer.get("refused") == "restoring":
                raise Restoring(place.store, place.task.partition, int(answer["done"]), int(answer["total"]))
            if "refused" in answer:
                raise NotOwner(place.store, place.task.partition, address, f"{address} had it, and has it no longer")
            return read(answer)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            said = f"{address} has it, and what it answers is not rows; is it a worker of this version?"
            raise NotOwner(place.store, place.task.partition, None, said) from error

    def _owner(self, place: Place) -> str | None:
        """The address of the worker that has the task's partitions; of any worker if the rows are everywhere."""
        topics, owners = self._plan().part(place.task.subtopology).topics, self.owners()
        if not topics:
            return next((address for address in owners.values() if address != self.address), None)
        addresses = (owners.get(TopicPartition(topic, place.task.partition)) for topic in topics)
        return next((address for address in addresses if address), None)

    def owners(self) -> dict[TopicPartition, str]:
        """The addresses of those who answer, by what they work on; as of a moment ago."""
        with self._lock:
            until, owners = self._known
            if time.monotonic() > until:
                state = self._group_of(self._group)
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
                self._known = (time.monotonic() + _FRESH, owners)
                self._connections.forget_others(set(owners.values()))
                self._neighbours.forget_others(set(owners.values()))
            return owners

    def _post(self, address: str, question: dict[str, Any]) -> bytes:
        body, headers = orjson.dumps(question), {"Content-Type": "application/json"}
        if address.startswith(LOCAL):  # only processes of the same user can be there
            return self._neighbours.ask(address, body)
        if self._signatures:
            headers["Authorization"] = self._signatures.of_question(address, PATH, body)
        answer = self._connections.post(address, PATH, body, headers)
        if answer.status != http.client.OK:
            said = f"status {answer.status}{_reason(answer)}"
            if answer.status >= http.client.INTERNAL_SERVER_ERROR or answer.status in _REFUSED:
                raise _NotNow(said)
            raise QueryError(f"{address} answered {said}")
        signature = answer.headers.get(ANSWER, "")
        if self._signatures and not self._signatures.is_of_answer(signature, headers["Authorization"], answer.body):
            raise _NotBelieved("does not know the token of this group, so its answer is not used")
        return answer.body

    def close(self) -> None:
        self._connections.close()
        self._neighbours.close()


def _reason(answer: Answered) -> str:
    """What the worker says of its status; the page of a server in between is not shown."""
    if answer.headers.get_content_type() == "text/html":
        return ""
    return f": {answer.body[:200].decode(errors='replace')}"


def is_address(text: str) -> bool:
    """Any member of the group may have written it: it is asked only if it is what a worker would say."""
    if text.startswith(LOCAL):  # only the embedded log has such, and who writes to that is of this machine
        return True
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and not url.query + url.fragment
    except ValueError:
        return False


# -- the other end


def answer(local: Committed, plan: Plan, question: dict[str, Any]) -> dict[str, Any]:
    """What a process that was asked says, of its own rows only."""
    store = question["store"]
    task = TaskId(known(plan, store).subtopology, int(question["partition"]))
    place = Place(store, task, alone=bool(question.get("alone")))
    try:
        if "key" in question:
            row = local.get(place, b64decode(question["key"]))
            return {"row": _or_none(row)}
        if "time" in question:
            return {"time": local.time(place)}
        rows = local.scan(place, _span(question["span"]))
        return {"rows": [(_text(key), _text(row)) for key, row in islice(rows, PAGE)]}
    except NotOwner:
        return {"refused": "not owner"}
    except Restoring as restoring:
        return {"refused": "restoring", "done": restoring.done, "total": restoring.total}


def answered(local: Committed, plan: Callable[[], Plan], question: bytes) -> bytes:
    """The same as bytes, for processes of the same machine."""
    try:
        return orjson.dumps(answer(local, plan(), orjson.loads(question)))
    except (QueryError, ValueError, KeyError, TypeError) as error:
        return orjson.dumps({"error": f"{type(error).__name__}: {error}"})
    except StreamtopoError:  # it has only begun, or a store could not be read: over HTTP a status of 500 and more
        return orjson.dumps({"refused": "not now"})


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _or_none(data: bytes | None) -> str | None:
    return None if data is None else _text(data)


def _data(text: str) -> bytes:
    return b64decode(text, validate=True)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else _data(text)


def _told(span: Span) -> list[Any]:
    extent = span.extent and (_or_none(span.extent.first), _or_none(span.extent.last), *span.extent[2:])
    return [_text(span.start), _or_none(span.stop), span.reverse, extent]


def _span(told: list[Any]) -> Span:
    start, stop, reverse, extent = told
    if extent is not None:
        first, last, *times = extent
        extent = Extent(_bytes(first), _bytes(last), *map(int, times))
    return Span(b64decode(start), _bytes(stop), bool(reverse), extent)
