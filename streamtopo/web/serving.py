"""The HTTP server of a worker, in a thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Self

import uvicorn

from streamtopo.errors import ConfigError
from streamtopo.web.application import Served, application
from streamtopo.web.limited_server import LimitedServer

LOOPBACK = "127.0.0.1"
_TIMEOUT = 2.0
"""Seconds that running requests may take when the server is closed."""


class Server:
    """Binds its port at once, so that the worker can announce the address; 0 takes any free port.

    The processes of a pool share one port, and each has another one of its own for queries of the others.
    """

    def __init__(
        self,
        port: int,
        *,
        host: str = LOOPBACK,
        token: str | None = None,
        shared: bool = False,
        allowed_hosts: Sequence[str] = (),
    ) -> None:
        """Accept requests whose Host is an IP address, localhost, a name of this machine, or one of these.

        Without these, any name is accepted if other machines can connect and must send a token.
        """
        self._token = token
        self._names = [host, *allowed_hosts]
        if not _is_loopback(host):
            self._names += [socket.gethostname(), socket.getfqdn()] + ["*"] * bool(token and not allowed_hosts)
        self._sockets = [_bound_socket(host, port, shared=shared)]
        if shared and port:
            self._sockets.append(_bound_socket(host, 0, shared=False))
        self._sockets[-1].listen()  # others may connect before it is served; they wait
        self.address = f"http://{_reachable_host(host)}:{self._sockets[-1].getsockname()[1]}"
        self._thread: threading.Thread | None = None

    def serve(self, served: Served) -> None:
        app = application(served, token=self._token, allowed_hosts=self._names)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=int(_TIMEOUT),
        )
        self._server = LimitedServer(config)
        self._thread = threading.Thread(
            target=self._server.run, args=(self._sockets,), name="streamtopo web", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self._server.should_exit = True
            self._thread.join(2 * _TIMEOUT)
        for bound in self._sockets:
            bound.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bound_socket(host: str, port: int, *, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ConfigError(f"port {port} of {host} cannot be opened: {error.strerror}; choose another one") from error
    return bound


def _reachable_host(host: str) -> str:
    """Return a host that other machines can connect to, even if the server listens on all addresses."""
    if host in ("0.0.0.0", "::"):
        return socket.getfqdn()
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
