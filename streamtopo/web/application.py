"""The routes: stores and their rows, tasks, topology, health, and queries of other processes."""

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
from streamtopo.hosting.answers import EngineFailed, NotOwner, QueryError, Restoring, UnknownStore
from streamtopo.hosting.app import HostError
from streamtopo.hosting.engines.lifecycle import AppState
from streamtopo.hosting.peers.protocol import PATH, answer
from streamtopo.hosting.peers.signing import ANSWER_HEADER, SCHEME, Signatures
from streamtopo.hosting.queries.async_query import AsyncQuery
from streamtopo.hosting.queries.query import queryable_stores
from streamtopo.hosting.queries.text_format import (
    MAX_DIGITS,
    MalformedKey,
    parse_bound,
    parse_key,
    row_to_json,
    version_to_json,
)
from streamtopo.hosting.sources.stores import Stores
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.views.key_value import Pair
from streamtopo.topology import Topology
from streamtopo.wall_clock import wall_clock
from streamtopo.web.guards import AllowedHosts, json_body
from streamtopo.web.openapi import MAX_PARTITIONS, MAX_ROWS, WAIT, description
from streamtopo.windows import FOREVER

Number = TypeVar("Number", int, None)

_DEFAULT_ROWS = 100
_CLIENT_GONE = 499
"""A status that nobody receives, because the client is gone."""
_MEDIA_TYPES = {"mermaid": "text/plain", "svg": "image/svg+xml", "text": "text/plain", "dot": "text/plain"}


class Served(Protocol):
    """What is served: a hosted app, or a worker."""

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
        except TypeError:  # an integer of more than 64 bits, or a lone surrogate, which orjson refuses
            return json.dumps(content).encode()


class _RowKey(Convertor[str]):
    """Matches any key; Starlette's own `path` stops at a line break."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("row_key", _RowKey())


def application(
    served: Served | Callable[[], Served], *, token: str | None = None, allowed_hosts: Sequence[str] | None = None
) -> Starlette:
    """Return an ASGI application to mount in a service. `served` is its app, or a function that returns it.

    With a token, all requests except health need the header `Authorization: Bearer TOKEN`. With `allowed_hosts`,
    the header Host must be one of these, an IP address, or localhost; without, the service must check it.
    """
    if token == "":
        raise ConfigError("the token is empty, so requests would need none; give a token, or None")
    find_app = served if callable(served) else lambda: served
    handlers = _Handlers(find_app, Signatures(token) if token else None)
    guards = [Middleware(_Guard, token=token)] if token else []
    signed = [Middleware(_Guard, token=token, signed=True)] if token else []
    routes = [
        Route("/stores", handlers.stores, middleware=guards),
        Route("/stores/{store}", handlers.rows, middleware=guards),
        Route("/stores/{store}/{key:row_key}", handlers.row, middleware=guards),
        Route("/tasks", handlers.tasks, middleware=guards),
        Route("/topology", handlers.topology, middleware=guards),
        Route("/health/live", handlers.live),
        Route("/health/ready", handlers.ready),
        Route("/openapi.json", handlers.openapi, middleware=guards),
        Route(PATH, handlers.peer, methods=["POST"], middleware=signed),
    ]
    hosts = [] if allowed_hosts is None else [Middleware(AllowedHosts, allowed=allowed_hosts)]
    exception_handlers: dict[Any, Any] = {**REFUSALS, HTTPException: _http_error, ClientDisconnect: _client_gone}
    app = Starlette(routes=routes, exception_handlers=exception_handlers, middleware=[*hosts, Middleware(_ExactPath)])
    app.router.redirect_slashes = False  # it would redirect to the Host of the request, whatever that is
    return app


class _Handlers:
    def __init__(self, find_app: Callable[[], Served], signatures: Signatures | None) -> None:
        self._find_app = find_app
        self._signatures = signatures

    async def stores(self, request: Request) -> Response:
        known = queryable_stores(self._find_app().stores.plan()).values()
        return JSON([{"name": one.spec.name, "kind": one.spec.kind.value, **_type_names(one.spec)} for one in known])

    async def row(self, request: Request) -> Response:
        return await _unless_disconnected(request, self._row)

    async def _row(self, request: Request) -> Response:
        store, text = request.path_params["store"], request.path_params["key"]
        query = self._find_app().stores.query_async(store, **_query_options(request))
        spec, key = query.spec, parse_key(query.spec.key, text)
        if spec.timed:
            return await self._windows(request, query, key)
        if spec.kind is Kind.VERSIONED:
            version = await query.versioned(key, _as_of(request))
            row = version and version_to_json(spec, key, version)
        else:
            found = await query.find(key)
            time = {"timestamp": found.timestamp} if spec.timestamped else {}
            row = None if found.value is None else row_to_json(spec, key, found.value) | time
        return JSON({"error": "no such key", "store": store, "key": text}, 404) if row is None else JSON(row)

    async def _windows(self, request: Request, query: AsyncQuery, key: Any) -> Response:
        """Return the windows or sessions of a key. If there is none, say from when on they are kept."""
        ask = query.session if query.spec.kind is Kind.SESSION else query.window
        found = await ask(key, *_bounds(request, query.spec))
        if not found:
            return JSON({"rows": [], "more": False, "kept_from": await query.kept_from(key)})
        return _rows_response(request, query.spec, found[::-1] if _is_reverse(request) else found)

    async def rows(self, request: Request) -> Response:
        return await _unless_disconnected(request, self._rows)

    async def _rows(self, request: Request) -> Response:
        query = self._find_app().stores.query_async(request.path_params["store"], **_query_options(request))
        if "prefix" in request.query_params:
            pairs = query.prefix(request.query_params["prefix"])
        else:
            pairs = query.range(*_bounds(request, query.spec), reverse=_is_reverse(request))
        return _rows_response(request, query.spec, [pair async for pair in _first(pairs, _limit(request) + 1)])

    async def tasks(self, request: Request) -> Response:
        metrics = self._find_app().metrics()
        if metrics is None:
            return JSON({"state": self._find_app().state.value, "tasks": [], "restoring": [], "held_back": []})
        now = wall_clock()
        lists = {
            "restoring": [one._asdict() for one in metrics.restoring],
            "held_back": [
                one._asdict() | {"partitions": list(map(str, one.partitions)), "text": one.in_words(now)}
                for one in metrics.held_back
            ],
        }
        return JSON({"state": self._find_app().state.value, **metrics._asdict(), **lists})

    async def topology(self, request: Request) -> Response:
        wanted = request.query_params.get("format", _accepted_format(request.headers.get("accept", "")))
        if wanted not in FORMATS:
            return JSON({"error": f'there is no format "{wanted}"', "formats": list(FORMATS)}, 422)
        drawn = FORMATS[wanted](self._find_app().topology)
        return Response(drawn, media_type=_MEDIA_TYPES.get(wanted, "application/json"))

    async def live(self, request: Request) -> Response:
        """Fail if the engine has failed for good, so that a supervisor restarts the process."""
        return self._health(self._find_app().state is not AppState.ERROR)

    async def ready(self, request: Request) -> Response:
        return self._health(self._find_app().state is AppState.RUNNING)

    def _health(self, healthy: bool) -> Response:
        return JSON({"state": self._find_app().state.value}, 200 if healthy else 503)

    async def openapi(self, request: Request) -> Response:
        served = self._find_app()
        return JSON(description(served.topology, served.stores.plan(), with_token=self._signatures is not None))

    async def peer(self, request: Request) -> Response:
        stores = self._find_app().stores
        body = await json_body(request)
        header = _authorization(request.headers)
        signed = self._signatures if header.startswith(SCHEME) else None
        if signed and not signed.verify_question(header, stores.address, PATH, body):
            message = (
                f'invalid signature: another token, another address than "{stores.address}", or clocks that differ'
            )
            return JSON({"error": message}, 401)
        try:
            question = orjson.loads(body)
            if "span" in question:  # in a thread: a scan can take long, and must not block the loop
                response = JSON(await asyncio.to_thread(answer, stores.local, stores.plan(), question))
            else:
                response = JSON(answer(stores.local, stores.plan(), question))
        except (ValueError, KeyError, TypeError) as error:
            return JSON({"error": f"not a valid query of another process: {error!r}"}, 422)
        if signed:
            response.headers[ANSWER_HEADER] = signed.sign_answer(header, bytes(response.body))
        return response


# -- parameters of requests


async def _unless_disconnected(
    request: Request, answer: Callable[[Request], Coroutine[Any, Any, Response]]
) -> Response:
    """Answer a request, but stop if the client disconnects while it waits."""
    for check in (_query_options, _is_reverse, _limit, _as_of):  # also those that this kind of store ignores
        check(request)
    if "wait" not in request.query_params:
        return await answer(request)
    answering, leaving = asyncio.create_task(answer(request)), asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else Response(status_code=_CLIENT_GONE)
    finally:
        answering.cancel()
        leaving.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _query_options(request: Request) -> dict[str, Any]:
    wait = request.query_params.get("wait", "0s")
    if not re.fullmatch(WAIT, wait):
        raise MalformedKey(f'wait is "{wait:.40}"; give a duration of up to 60 seconds, such as 500ms or 5s')
    return {"wait": wait, "partition": _number(request, "partition", None, MAX_PARTITIONS)}


def _bounds(request: Request, spec: StoreSpec) -> list[Any]:
    requested = request.query_params
    return [parse_bound(spec, requested[name]) if name in requested else None for name in ("from", "to")]


def _is_reverse(request: Request) -> bool:
    text = request.query_params.get("reverse", "false")
    if text not in ("true", "false"):
        raise MalformedKey(f'reverse is "{text:.40}"; give true or false')
    return text == "true"


def _limit(request: Request) -> int:
    return _number(request, "limit", _DEFAULT_ROWS, MAX_ROWS)


def _as_of(request: Request) -> int | None:
    return _number(request, "as_of", None, FOREVER)


def _number(request: Request, name: str, default: Number, most: int) -> int | Number:
    if name not in request.query_params:
        return default
    text = request.query_params[name]
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_DIGITS or int(text) > most:
        raise MalformedKey(f'{name} is "{text:.40}"; give a number up to {most}')
    return int(text)


def _rows_response(request: Request, spec: StoreSpec, pairs: list[Pair]) -> Response:
    limit = _limit(request)
    return JSON({"rows": [row_to_json(spec, *pair) for pair in pairs[:limit]], "more": len(pairs) > limit})


async def _first(pairs: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    async for pair in pairs:
        yield pair
        if (count := count - 1) == 0:
            return


def _type_names(spec: StoreSpec) -> dict[str, str]:
    return {"key": spec.key.name, "value": spec.value.name}


def _accepted_format(accept: str) -> str:
    return "svg" if "image/svg+xml" in accept and "application/json" not in accept else "json"


# -- answers to errors


async def _unknown_store(request: Request, error: Exception) -> Response:
    return JSON({"error": str(error)}, 404)


async def _malformed(request: Request, error: Exception) -> Response:
    return JSON({"error": str(error)}, 422)


async def _not_owner(request: Request, error: Exception) -> Response:
    assert isinstance(error, NotOwner)
    body = {"error": str(error), "answer": "not owner", "partition": error.partition, "address": error.address}
    return JSON(body, 503, {"Retry-After": "1"})


async def _restoring(request: Request, error: Exception) -> Response:
    assert isinstance(error, Restoring)
    body = {"error": str(error), "answer": "restoring", "partition": error.partition, "progress": error.progress}
    return JSON(body, 503, {"Retry-After": "1"})


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSON({"error": error.detail}, error.status_code, error.headers)


async def _client_gone(request: Request, error: Exception) -> Response:
    """The client disconnected while sending its body."""
    return Response(status_code=_CLIENT_GONE)


async def _not_running(request: Request, error: Exception) -> Response:
    return JSON({"error": str(error), "answer": "not running"}, 503, {"Retry-After": "1"})


async def _failed(request: Request, error: Exception) -> Response:
    return JSON({"error": str(error), "answer": "engine failed"}, 503)


REFUSALS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    UnknownStore: _unknown_store,
    NotOwner: _not_owner,
    Restoring: _restoring,
    EngineFailed: _failed,
    QueryError: _malformed,
    HostError: _not_running,
    SerdeError: _malformed,
    ConfigError: _malformed,
    MalformedKey: _malformed,
}
"""Exception handlers for other applications: `FastAPI(exception_handlers=REFUSALS)`."""


class _ExactPath:
    """Restores the path as sent: Litestar appends a slash to paths of mounted applications, and a key may end so.

    It also refuses paths that are not UTF-8: servers replace such bytes by U+FFFD, which would be another key.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # lifespan events
            await self._app(scope, receive, send)
            return
        requested = scope.get("raw_path") or b"/"
        try:
            unquote_to_bytes(requested + b"?" + scope["query_string"]).decode()
        except UnicodeDecodeError as error:
            await JSON({"error": f"the path or the query string is not UTF-8: {error}"}, 422)(scope, receive, send)
            return
        if scope["path"].endswith("/") and not requested.partition(b"?")[0].endswith((b"/", b"%2F", b"%2f")):
            scope = {**scope, "path": scope["path"].removesuffix("/")}
        await self._app(scope, receive, send)


def _authorization(headers: Headers) -> str:
    """Return the Authorization header, unless there are several: one could be checked and another used."""
    given = headers.getlist("authorization")
    return given[0] if len(given) == 1 else ""


class _Guard:
    """Refuses requests without the token. With `signed`, signed requests pass, and the route verifies them."""

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
                refused = JSON({"error": "the token is missing or wrong"}, 401, {"WWW-Authenticate": "Bearer"})
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)
