"""A server for the web face of a worker: in a thread of its own, beside the work."""

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
_PATIENCE = 2.0
"""Seconds that requests may take to their end while the server is closed."""


class Server:
    """The port is taken at once, so that the worker can tell others the address; 0 takes any that is free.

    Processes of a pool share one port, and each has another one of its own where the others find it.
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
        """Requests may name it by an address, as localhost, by a name of this machine, or by one of these.

        Without them any name will do where other machines may connect, and all must show a token.
        """
        self._token = token
        self._names = [host, *allowed_hosts]
        if not _is_loopback(host):
            self._names += [socket.gethostname(), socket.getfqdn()] + ["*"] * bool(token and not allowed_hosts)
        self._sockets = [_bound(host, port, shared=shared)]
        if shared and port:
            self._sockets.append(_bound(host, 0, shared=False))
        self._sockets[-1].listen()  # others are told of it before it is served, and wait so long
        self.address = f"http://{_reached_as(host)}:{self._sockets[-1].getsockname()[1]}"
        self._thread: threading.Thread | None = None

    def serve(self, served: Served) -> None:
        app = application(served, token=self._token, allowed_hosts=self._names)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=int(_PATIENCE),
        )
        self._server = LimitedServer(config)
        self._thread = threading.Thread(
            target=self._server.run, args=(self._sockets,), name="streamtopo web", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self._server.should_exit = True
            self._thread.join(2 * _PATIENCE)
        for one in self._sockets:
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bound(host: str, port: int, *, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind((host, port))
    except OSError as error:
        one.close()
        raise ConfigError(f"port {port} of {host} cannot be served: {error.strerror}; choose another one") from error
    return one


def _reached_as(host: str) -> str:
    """What other machines can connect to, where all addresses of this one are served."""
    if host in ("0.0.0.0", "::"):
        return socket.getfqdn()
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
