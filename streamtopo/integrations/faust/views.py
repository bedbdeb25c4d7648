"""What `streamtopo.web` serves, as a view of the web server of a Faust app."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import faust
from faust.web import Request, Response, View

from streamtopo.hosting.app import AsyncApp
from streamtopo.web import application


def add_views(app: faust.App, path: str, find: Callable[[], AsyncApp], token: str | None) -> None:
    asgi: Any = application(find, token=token)

    async def answered(view: View, request: Any, body: bytes) -> Response:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await asgi(_scope(request, path), receive, send)
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        content = b"".join(part.get("body", b"") for part in sent[1:])
        return view.bytes(content, status=sent[0]["status"], headers=headers)

    class Topology(View):
        async def get(self, request: Request, **kwargs: Any) -> Response:
            return await answered(self, request, b"")

        async def post(self, request: Request, **kwargs: Any) -> Response:
            return await answered(self, request, await self.read_request_content(request))

    app.page(path + "/{rest:(?s:.*)}", name=path.strip("/"))(Topology)


def _scope(request: Any, path: str) -> dict[str, Any]:
    """A request of aiohttp as a scope of ASGI."""
    raw_path, _, query = request.raw_path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": unquote(raw_path).removeprefix(path),
        "raw_path": raw_path.encode(errors="surrogateescape"),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in request.headers.items()],
    }
