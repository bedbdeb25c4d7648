"""The routes: stores and their rows, tasks, topology, health, and the rows that other processes ask for."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote_to_bytes

import orjson
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from streamtopo.drawing import FORMATS
from streamtopo.engine.metrics import Metrics
from streamtopo.errors import ConfigError, SerdeError
from streamtopo.hosting.answers import NotOwner, QueryError, Restoring, UnknownStore
from streamtopo.hosting.app import HostError
from streamtopo.hosting.asking import AsyncQuery
from streamtopo.hosting.peers import PATH, answer
from streamtopo.hosting.query import stores_of
from streamtopo.hosting.signing import ANSWER, SCHEME, Signatures
from streamtopo.hosting.states import AppState
from streamtopo.hosting.stores import Stores
from streamtopo.hosting.texts import DIGITS, MalformedKey, bound_of, key_of, shown_row, shown_version
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.views import Pair
from streamtopo.topology import Topology
from streamtopo.web.guards import Hosts, json_body
from streamtopo.web.openapi import MOST_PARTITIONS, MOST_ROWS, WAIT, description
from streamtopo.windows import FOREVER

Number = TypeVar("Number", int, None)

_ROWS = 100
_CLIENT_GONE = 499
"""A status that nobody sees."""
_TYPES = {"mermaid": "text/plain", "svg": "image/svg+xml", "text": "text/plain", "dot": "text/plain"}


class Served(Protocol):
    """A hosted app, or a worker."""

    topology: Topology
    stores: Stores

    @property
    def state(self) -> AppState: ...

    def metrics(self) -> Metrics | None: ...


class JSON(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        try:
            return orjson.dumps(content)
        except TypeError:  # an integer of more than 64 bits, or a lone surrogate
            return json.dumps(content).encode()


class _RowKey(Convertor[str]):
    """Anything; Starlette's own `path` ends at a line break."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("row_key", _RowKey())


def application(
    served: Served | Callable[[], Served], *, token: str | None = None, allowed_hosts: Sequence[str] | None = None
) -> Starlette:
    """To be mounted in a service, `served` being its app, or a function that finds it when it is there.

    With a token every request needs the header `Authorization: Bearer TOKEN`, but for those for health. With
    `allowed_hosts` the header Host must be one of these, an address, or localhost; else the service sees to that.
    """
    if token == "":
        raise ConfigError("the token is empty, and everybody could ask; give one, or None")
    find = served if callable(served) else lambda: served
    pages = _Pages(find, Signatures(token) if token else None)
    guards = [Middleware(_Guard, token=token)] if token else []
    signed = [Middleware(_Guard, token=token, signed=True)] if token else []
    routes = [
        Route("/stores", pages.stores, middleware=guards),
        Route("/stores/{store}", pages.rows, middleware=guards),
        Route("/stores/{store}/{key:row_key}", pages.row, middleware=guards),
        Route("/tasks", pages.tasks, middleware=guards),
        Route("/topology", pages.topology, middleware=guards),
        Route("/health/live", pages.live),
        Route("/health/ready", pages.ready),
        Route("/openapi.json", pages.openapi, middleware=guards),
        Route(PATH, pages.peer, methods=["POST"], middleware=signed),
    ]
    hosts = [] if allowed_hosts is None else [Middleware(Hosts, allowed=allowed_hosts)]
    handlers: dict[Any, Any] = {**REFUSALS, HTTPException: _refused, ClientDisconnect: _gone}
    made = Starlette(routes=routes, exception_handlers=handlers, middleware=[*hosts, Middleware(_AsAsked)])
    made.router.redirect_slashes = False  # it would redirect to whatever the request has as its Host
    return made


class _Pages:
    def __init__(self, find: Callable[[], Served], signatures: Signatures | None) -> None:
        self._find = find
        self._signatures = signatures

    async def stores(self, request: Request) -> Response:
        known = stores_of(self._find().stores.plan()).values()
        return JSON([{"name": one.spec.name, "kind": one.spec.kind.value, **_types(one.spec)} for one in known])

    async def row(self, request: Request) -> Response:
        return await _answered(request, self._row)

    async def _row(self, request: Request) -> Response:
        store, text = request.path_params["store"], request.path_params["key"]
        query = self._find().stores.query_async(store, **_waiting(request))
        spec, key = query.spec, key_of(query.spec.key, text)
        if spec.timed:
            return await self._windows(request, query, key)
        if spec.kind is Kind.VERSIONED:
            version = await query.versioned(key, _as_of(request))
            row = version and shown_version(spec, key, version)
        else:
            found = await query.find(key)
            time = {"timestamp": found.timestamp} if spec.timestamped else {}
            row = None if found.value is None else shown_row(spec, key, found.value) | time
        return JSON({"error": "no such key", "store": store, "key": text}, 404) if row is None else JSON(row)

    async def _windows(self, request: Request, query: AsyncQuery, key: Any) -> Response:
        """Of a key that has none: an empty list."""
        ask = query.session if query.spec.kind is Kind.SESSION else query.window
        found = await ask(key, *_bounds(request, query.spec))
        return _listed(request, query.spec, found[::-1] if _backwards(request) else found)

    async def rows(self, request: Request) -> Response:
        return await _answered(request, self._rows)

    async def _rows(self, request: Request) -> Response:
        query = self._find().stores.query_async(request.path_params["store"], **_waiting(request))
        if "prefix" in request.query_params:
            pairs = query.prefix(request.query_params["prefix"])
        else:
            pairs = query.range(*_bounds(request, query.spec), reverse=_backwards(request))
        return _listed(request, query.spec, [pair async for pair in _first(pairs, _limit(request) + 1)])

    async def tasks(self, request: Request) -> Response:
        metrics = self._find().metrics()
        if metrics is None:
            return JSON({"state": self._find().state.value, "tasks": [], "restoring": []})
        restoring = [one._asdict() for one in metrics.restoring]
        return JSON({"state": self._find().state.value, **metrics._asdict(), "restoring": restoring})

    async def topology(self, request: Request) -> Response:
        wanted = request.query_params.get("format", _accepted(request.headers.get("accept", "")))
        if wanted not in FORMATS:
            return JSON({"error": f'there is no format "{wanted}"', "formats": list(FORMATS)}, 422)
        drawn = FORMATS[wanted](self._find().topology)
        return Response(drawn, media_type=_TYPES.get(wanted, "application/json"))

    async def live(self, request: Request) -> Response:
        """Fails when the engine is gone for good, so that whoever watches the process starts it again."""
        return self._health(self._find().state is not AppState.ERROR)

    async def ready(self, request: Request) -> Response:
        return self._health(self._find().state is AppState.RUNNING)

    def _health(self, well: bool) -> Response:
        return JSON({"state": self._find().state.value}, 200 if well else 503)

    async def openapi(self, request: Request) -> Response:
        served = self._find()
        return JSON(description(served.topology, served.stores.plan(), with_token=self._signatures is not None))

    async def peer(self, request: Request) -> Response:
        stores = self._find().stores
        body = await json_body(request)
        header = _authorization(request.headers)
        signed = self._signatures if header.startswith(SCHEME) else None
        if signed and not signed.is_of_question(header, stores.address, PATH, body):
            said = (
                f'the signature is wrong: another token, another address than "{stores.address}", or clocks that differ'
            )
            return JSON({"error": said}, 401)
        try:
            question = orjson.loads(body)
            if "span" in question:  # many rows, maybe found among many more: the loop goes on meanwhile
                response = JSON(await asyncio.to_thread(answer, stores.local, stores.plan(), question))
            else:
                response = JSON(answer(stores.local, stores.plan(), question))
        except (ValueError, KeyError, TypeError) as error:
            return JSON({"error": f"not a question of another process: {error!r}"}, 422)
        if signed:
            response.headers[ANSWER] = signed.of_answer(header, bytes(response.body))
        return response


# -- what requests ask for


async def _answered(request: Request, answer: Callable[[Request], Coroutine[Any, Any, Response]]) -> Response:
    """Nothing more is done for a client that hangs up while it waits."""
    _waiting(request), _backwards(request), _limit(request), _as_of(request)  # also those of other kinds of stores
    if "wait" not in request.query_params:
        return await answer(request)
    answering, leaving = asyncio.create_task(answer(request)), asyncio.create_task(_hung_up(request))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else Response(status_code=_CLIENT_GONE)
    finally:
        answering.cancel()
        leaving.cancel()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _waiting(request: Request) -> dict[str, Any]:
    wait = request.query_params.get("wait", "0s")
    if not re.fullmatch(WAIT, wait):
        raise MalformedKey(f'wait is "{wait:.40}"; give a duration of up to 60 seconds, such as 500ms or 5s')
    return {"wait": wait, "partition": _number(request, "partition", None, MOST_PARTITIONS)}


def _bounds(request: Request, spec: StoreSpec) -> list[Any]:
    asked = request.query_params
    return [bound_of(spec, asked[name]) if name in asked else None for name in ("from", "to")]


def _backwards(request: Request) -> bool:
    text = request.query_params.get("reverse", "false")
    if text not in ("true", "false"):
        raise MalformedKey(f'reverse is "{text:.40}"; give true or false')
    return text == "true"


def _limit(request: Request) -> int:
    return _number(request, "limit", _ROWS, MOST_ROWS)


def _as_of(request: Request) -> int | None:
    return _number(request, "as_of", None, FOREVER)


def _number(request: Request, name: str, default: Number, most: int) -> int | Number:
    if name not in request.query_params:
        return default
    text = request.query_params[name]
    if not (text.isascii() and text.isdecimal()) or len(text) > DIGITS or int(text) > most:
        raise MalformedKey(f'{name} is "{text:.40}"; give a number up to {most}')
    return int(text)


def _listed(request: Request, spec: StoreSpec, pairs: list[Pair]) -> Response:
    limit = _limit(request)
    return JSON({"rows": [shown_row(spec, *pair) for pair in pairs[:limit]], "more": len(pairs) > limit})


async def _first(pairs: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    async for pair in pairs:
        yield pair
        if (count := count - 1) == 0:
            return


def _types(spec: StoreSpec) -> dict[str, str]:
    return {"key": spec.key.name, "value": spec.value.name}


def _accepted(accept: str) -> str:
    return "svg" if "image/svg+xml" in accept and "application/json" not in accept else "json"


# -- what they are refused with


async def _unknown_store(request: Request, error: Exception) -> Response:
    return JSON({"error": str(error)}, 404)


async def _malformed(request: Request, error: Exception) -> Response:
    return JSON({"error": str(error)}, 422)


async def _elsewhere(request: Request, error: Exception) -> Response:
    assert isinstance(error, NotOwner)
    said = {"error": str(error), "answer": "not owner", "partition": error.partition, "address": error.address}
    return JSON(said, 503, {"Retry-After": "1"})


async def _restoring(request: Request, error: Exception) -> Response:
    assert isinstance(error, Restoring)
    said = {"error": str(error), "answer": "restoring", "partition": error.partition, "progress": error.progress}
    return JSON(said, 503, {"Retry-After": "1"})


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSON({"error": error.detail}, error.status_code, error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    """It hung up in the middle of its body."""
    return Response(status_code=_CLIENT_GONE)


async def _not_there(request: Request, error: Exception) -> Response:
    return JSON({"error": str(error), "answer": "not running"}, 503, {"Retry-After": "1"})


REFUSALS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    UnknownStore: _unknown_store,
    NotOwner: _elsewhere,
    Restoring: _restoring,
    QueryError: _malformed,
    HostError: _not_there,
    SerdeError: _malformed,
    ConfigError: _malformed,
    MalformedKey: _malformed,
}
"""For a service of one's own: `FastAPI(exception_handlers=REFUSALS)`."""


class _AsAsked:
    """Litestar ends the paths of what is mounted with a slash, asked for or not; and keys may end with one.

    Servers put U+FFFD for bytes that are no UTF-8, which would be another key.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # a server's own start and end
            await self._app(scope, receive, send)
            return
        asked = scope.get("raw_path") or b"/"
        try:
            unquote_to_bytes(asked + b"?" + scope["query_string"]).decode()
        except UnicodeDecodeError as error:
            await JSON({"error": f"the path, or the query behind it, is not UTF-8: {error}"}, 422)(scope, receive, send)
            return
        if scope["path"].endswith("/") and not asked.partition(b"?")[0].endswith((b"/", b"%2F", b"%2f")):
            scope = {**scope, "path": scope["path"].removesuffix("/")}
        await self._app(scope, receive, send)


def _authorization(headers: Headers) -> str:
    """The only one: of two, what is checked might be one, and what is used the other."""
    given = headers.getlist("authorization")
    return given[0] if len(given) == 1 else ""


class _Guard:
    """Lets nobody in without the token. Where requests may be `signed`, those pass: the route checks them."""

    def __init__(self, app: ASGIApp, token: str, signed: bool = False) -> None:
        self._app = app
        self._signed = signed
        self._expected = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scheme, _, given = _authorization(Headers(scope=scope)).partition(" ")
            token = given.encode("latin-1").strip()
            known = scheme.lower() == "bearer" and secrets.compare_digest(token, self._expected)
            if not known and not (self._signed and scheme == SCHEME):
                refused = JSON({"error": "the token is missing, or wrong"}, 401, {"WWW-Authenticate": "Bearer"})
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)
