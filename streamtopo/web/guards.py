"""Refuses requests with other host names, and bodies that are too large or of another type."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

MAX_BODY_BYTES = 2_000_000
"""Maximum size of a body. Questions are small, but a key can have a megabyte."""


class AllowedHosts:
    """Accepts only requests whose Host is one of these names, an IP address, or localhost.

    A web page can make its own host name resolve to an address of this machine, and then read the answers ("DNS
    rebinding"). Such requests have that name as their Host, never an IP address or localhost.
    """

    def __init__(self, app: ASGIApp, allowed: Iterable[str]) -> None:
        """`*.example.com` allows all names below it, and `*` allows all names."""
        self._app = app
        self._allowed = [_name(name) for name in allowed]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            name = _name(dict(scope["headers"]).get(b"host", b"").decode("latin-1"))
            if name and not self._is_allowed(name):  # browsers always send a Host; probes of load balancers may not
                message = (
                    f'"{name:.100}" is not a name of this server; allow it with --web-allowed-hosts (allowed_hosts=)'
                )
                await JSONResponse({"error": message}, 421)(scope, receive, send)
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
    """Return the host name without the port."""
    name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    return name.lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


async def json_body(request: Request) -> bytes:
    """Return the body if its type is JSON: the pages of any site can send other types."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send application/json")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(413, f"the body has more than {MAX_BODY_BYTES} bytes", {"Connection": "close"})
    return bytes(body)
