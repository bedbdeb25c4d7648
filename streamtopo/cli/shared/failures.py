"""How a failed command ends: with a traceback of the user's code, a message on standard error, and an exit code."""

from __future__ import annotations

import os
import re
import shlex
import sys
import traceback
from contextlib import suppress
from typing import Any

import click
from click.core import ParameterSource

from streamtopo.errors import StreamtopoError
from streamtopo.logs.opening import shown_log

FAILED, INTERRUPTED = 1, 130
_VERBOSE = "streamtopo.verbose"
_LOG = "streamtopo.log"
_USES_LOG = re.compile(r"streamtopo (consume|dlq|groups|produce|query|reset|topics|worker)\b")


class Commands(click.Group):
    """A group whose commands all have --verbose and report failures in the same way."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        cmd.params.append(_verbose_option())
        super().add_command(cmd, name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except StreamtopoError as error:
            click.echo(message_of(error, ctx), err=True)
            ctx.exit(FAILED)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)

    def main(self, *args: Any, **extra: Any) -> Any:
        _open_closed_streams()
        try:
            return super().main(*args, **extra)
        except OSError as error:  # except a broken pipe, which ends the command silently
            _discard_output()
            click.echo(f"Error: {error}", err=True)
            sys.exit(FAILED)


def message_of(error: StreamtopoError, context: click.Context) -> str:
    if context.meta.get(_VERBOSE):
        return full_traceback(error)
    message, url = short_message(error), context.meta.get(_LOG)
    if url is None or "--log" in message or not _USES_LOG.search(str(error)):
        return message
    return f"{message} (with --log {url})"


def remember_log(context: click.Context, parameter: click.Parameter, url: str) -> str:
    """Commands that an error advises need --log if the failed command had it."""
    if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
        shown = shown_log(url)
        context.meta[_LOG] = shlex.quote(shown) if shown == url else "URL"
    return url


def full_traceback(error: StreamtopoError) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


def short_message(error: StreamtopoError) -> str:
    """Return the message, after the traceback of its cause if that came from the user's code."""
    message, cause = f"Error: {error}", error.__cause__
    if cause is None:
        return message
    from streamtopo.engine.tracebacks import is_users, without_engine

    shown = traceback.format_exception(without_engine(cause))
    return "".join(shown) + message if is_users(cause) else message


def _verbose_option() -> click.Option:
    def remember(context: click.Context, _: click.Parameter, verbose: bool) -> None:
        if verbose:
            context.meta[_VERBOSE] = True

    return click.Option(
        ["--verbose"], is_flag=True, expose_value=False, callback=remember, help="Show full tracebacks."
    )


def _open_closed_streams() -> None:
    """Open /dev/null in place of standard streams that are closed (`<&-`, `>&-`)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - it stays open as long as the process


def _discard_output() -> None:
    """Python would try to write the output again at exit, and report a second error."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
