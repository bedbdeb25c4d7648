"""The HTTP server of a worker on the command line: its options, and how it is started."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from streamtopo.cli.shared.options import Setting
from streamtopo.errors import ConfigError
from streamtopo.settings.config import WorkerConfig
from streamtopo.settings.extras import missing
from streamtopo.settings.redaction import Secret

if TYPE_CHECKING:
    from streamtopo.engine.worker.worker import Worker
    from streamtopo.logs import Log
    from streamtopo.topology import Topology


class WebOptions(NamedTuple):
    """How a worker answers queries over HTTP. Without a port it does not."""

    port: int | None
    host: str
    token: str | None
    allowed_hosts: tuple[str, ...] = ()


def web_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, and pass them to it as `web`."""

    @functools.wraps(command)
    def with_web(
        *, web_port: int | None, web_host: str, web_token: str | None, web_allowed_hosts: str, **given: Any
    ) -> Any:
        if web_token == "":  # for example, from a variable that is not set
            raise ConfigError("--web-token is empty, so requests would need none; give a token, or remove the option")
        names = tuple(name.strip() for name in web_allowed_hosts.split(",") if name.strip())
        return command(web=WebOptions(web_port, web_host, web_token and Secret(web_token), names), **given)

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
        help="Answer queries over HTTP on this port; 0 takes any free port. Default: no server.",
    ),
    click.option(
        "--web-host",
        cls=Setting,
        default="127.0.0.1",
        metavar="ADDRESS",
        show_default=True,
        show_envvar=True,
        help="Address to listen on.",
    ),
    click.option(
        "--web-token",
        cls=Setting,
        metavar="TOKEN",
        show_envvar=True,
        help="Token that requests must have: Authorization: Bearer TOKEN.",
    ),
    click.option(
        "--web-allowed-hosts",
        cls=Setting,
        default="",
        metavar="NAMES",
        show_envvar=True,
        help="Names that requests may have as their Host, separated by commas, such as *.example.com. * allows any.",
    ),
]


@contextmanager
def worker_with_server(
    web: WebOptions, topology: Topology, log: Log, config: WorkerConfig, say: Callable[[str], object] | None = None
) -> Iterator[Worker]:
    """Yield a worker, and serve it if there is a port. Without `say` it is one of a pool: these share a port."""
    from streamtopo.engine.worker.worker import Worker

    if web.port is None:
        yield Worker(topology, log, config=config)
        return
    try:
        from streamtopo.web.serving import Server
    except ModuleNotFoundError as error:
        raise ConfigError(missing("--web-port", "web")) from error
    from streamtopo.engine.worker.interpreter import frequent_switching
    from streamtopo.hosting.sources.standalone import StandaloneWorker

    server = Server(web.port, host=web.host, token=web.token, shared=say is None, allowed_hosts=web.allowed_hosts)
    with server, frequent_switching:
        worker = Worker(topology, log, config=config, address=server.address)
        face = StandaloneWorker(topology, worker, address=server.address, token=web.token)
        with closing(face.stores):
            server.serve(face)
            if say is not None:
                say(f"{'answers at':<12} {server.address}")
            yield worker
