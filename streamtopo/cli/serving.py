"""The web face of a worker on the command line: its options, and how it is served beside the work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from streamtopo.cli.options import Setting
from streamtopo.config import WorkerConfig
from streamtopo.errors import ConfigError
from streamtopo.extras import missing
from streamtopo.redaction import Secret

if TYPE_CHECKING:
    from streamtopo.engine.worker import Worker
    from streamtopo.logs import Log
    from streamtopo.topology import Topology


class Web(NamedTuple):
    """Where a worker answers queries; a worker without a port does not."""

    port: int | None
    host: str
    token: str | None
    allowed_hosts: tuple[str, ...] = ()


def web_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the command `web`."""

    @functools.wraps(command)
    def with_web(
        *, web_port: int | None, web_host: str, web_token: str | None, web_allowed_hosts: str, **given: Any
    ) -> Any:
        if web_token == "":  # as of a variable that is not set
            raise ConfigError("--web-token is empty, and everybody could ask; give a token, or leave the option out")
        names = tuple(name.strip() for name in web_allowed_hosts.split(",") if name.strip())
        return command(web=Web(web_port, web_host, web_token and Secret(web_token), names), **given)

    for option in reversed(_OPTIONS):
        with_web = option(with_web)
    return with_web


_OPTIONS = [
    click.option(
        "--web-port",
        cls=Setting,
        type=click.IntRange(0, 65535),
        metavar="N",
        show_envvar=True,
        help="Answer queries over HTTP; 0 takes a free port. Without it there is no server.",
    ),
    click.option(
        "--web-host",
        cls=Setting,
        default="127.0.0.1",
        show_default=True,
        show_envvar=True,
        help="The address to serve.",
    ),
    click.option("--web-token", cls=Setting, show_envvar=True, help="What requests must show: Authorization: Bearer …"),
    click.option(
        "--web-allowed-hosts",
        cls=Setting,
        default="",
        metavar="NAMES",
        show_envvar=True,
        help="Names that the Host of a request may have, separated by commas, such as *.example.com; * allows any.",
    ),
]


@contextmanager
def answering(
    web: Web, topology: Topology, log: Log, config: WorkerConfig, say: Callable[[str], object] | None = None
) -> Iterator[Worker]:
    """A worker and, if that is wanted, its server. Without `say` the worker is one of a pool, which share a port."""
    from streamtopo.engine.worker import Worker

    if web.port is None:
        yield Worker(topology, log, config=config)
        return
    try:
        from streamtopo.web.serving import Server
    except ModuleNotFoundError as error:
        raise ConfigError(missing("--web-port", "web")) from error
    from streamtopo.engine.interpreter import brisk_switching
    from streamtopo.hosting.looking import LookedAt

    server = Server(web.port, host=web.host, token=web.token, shared=say is None, allowed_hosts=web.allowed_hosts)
    with server, brisk_switching:
        worker = Worker(topology, log, config=config, address=server.address)
        face = LookedAt(topology, worker, address=server.address, token=web.token)
        with closing(face.stores):
            server.serve(face)
            if say is not None:
                say(f"{'answers at':<12} {server.address}")
            yield worker
