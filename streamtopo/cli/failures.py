"""How a command that failed ends: one message on standard error, the user's own frames above it, an exit code."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from streamtopo.errors import StreamtopoError

PACKAGE = str(Path(__file__).parent.parent)
STANDARD_LIBRARY = sysconfig.get_path("stdlib")
INSTALLED = sysconfig.get_path("purelib")
IMPORTLIB = str(Path(traceback.__file__).parent / "importlib")
KAFKA_CLIENT = "/confluent_kafka/"
FAILED, INTERRUPTED = 1, 130
_VERBOSE = "streamtopo.verbose"


class Commands(click.Group):
    """A group whose commands all take --verbose and end alike when they fail."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        cmd.params.append(_verbose_option())
        super().add_command(cmd, name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except StreamtopoError as error:
            click.echo(told(error, ctx), err=True)
            ctx.exit(FAILED)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)

    def main(self, *args: Any, **extra: Any) -> Any:
        _open_what_is_closed()
        try:
            return super().main(*args, **extra)
        except OSError as error:  # except a broken pipe, which ends the command silently
            _give_up_output()
            click.echo(f"Error: {error}", err=True)
            sys.exit(FAILED)


def told(error: StreamtopoError, context: click.Context) -> str:
    return whole(error) if context.meta.get(_VERBOSE) else short(error)


def whole(error: StreamtopoError) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


def short(error: StreamtopoError) -> str:
    """The message; above it the traceback of what caused it, if that came from the user's code."""
    message = f"Error: {error}"
    if error.__cause__ is None:
        return message
    cause = traceback.TracebackException.from_exception(error.__cause__)
    return "".join(cause.format()) + message if _leave_out_the_engine(cause, error.__cause__) else message


def _leave_out_the_engine(report: traceback.TracebackException, error: BaseException) -> bool:
    """Keep the user's frames in the report of this error and of its causes; true if there are any."""
    users = [frame for frame in report.stack if _is_users(frame.filename)]
    report.stack = traceback.StackSummary.from_list(users)
    report.__cause__ = _from_the_user(report.__cause__, error.__cause__)
    report.__context__ = _from_the_user(report.__context__, error.__context__)
    by_users = not all(_is_pythons(frame.filename) for frame in users)
    return bool(by_users or report.__cause__ or isinstance(error, SyntaxError))


def _from_the_user(
    report: traceback.TracebackException | None, error: BaseException | None
) -> traceback.TracebackException | None:
    if report is None or error is None or type(error).__module__.startswith("streamtopo.engine"):
        return None
    return report if _leave_out_the_engine(report, error) else None


def _is_users(filename: str) -> bool:
    return not filename.startswith((PACKAGE, IMPORTLIB, "<frozen ")) and KAFKA_CLIENT not in filename


def _is_pythons(filename: str) -> bool:
    return filename.startswith(STANDARD_LIBRARY) and not filename.startswith(INSTALLED)


def _verbose_option() -> click.Option:
    def remember(context: click.Context, _: click.Parameter, verbose: bool) -> None:
        if verbose:
            context.meta[_VERBOSE] = True

    return click.Option(
        ["--verbose"], is_flag=True, expose_value=False, callback=remember, help="Show whole tracebacks."
    )


def _open_what_is_closed() -> None:
    """Standard streams that are closed (`<&-`, `>&-`) are those of /dev/null."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - it is open as long as the process


def _give_up_output() -> None:
    """What could not be written would be tried again, and complained of, at the end of the process."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
