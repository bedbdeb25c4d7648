"""What is refused before it is looked at: names that are not ours, bodies that are too large or of another type."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

MOST_BYTES = 2_000_000
"""Of a body. Questions are small, but a key in them may have a megabyte."""


class Hosts:
    """Lets requests through whose Host is one of these names, an IP address, or localhost.

    A page of another site may have its own name resolve to an address of this machine, and then read what is answered
    ("DNS rebinding"). Such a request has that name as its Host; an address or localhost it cannot have.
    """

    def __init__(self, app: ASGIApp, allowed: Iterable[str]) -> None:
        """`*.example.com` allows all names below that one, and `*` all."""
        self._app = app
        self._allowed = [_name(name) for name in allowed]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            name = _name(dict(scope["headers"]).get(b"host", b"").decode("latin-1"))
            if name and not self._is_allowed(name):  # browsers always send one; probes of load balancers may not
                said = f'"{name:.100}" is not a name of this server; allow it with --web-allowed-hosts (allowed_hosts=)'
                await JSONResponse({"error": said}, 421)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_allowed(self, name: str) -> bool:
        if name == "localhost" or name.endswith(".localhost") or _is_address(name):
            return True
        return any(
            pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:]))
            for pattern in self._allowed
        )


def _name(host: str) -> str:
    """Without the port."""
    name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    return name.lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


async def json_body(request: Request) -> bytes:
    """The body, if it says that it is JSON: other types could be sent by the pages of any site."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send application/json")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"the body has more than {MOST_BYTES} bytes", {"Connection": "close"})
    return bytes(body)
