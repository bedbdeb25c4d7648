"""How a failed command ends: with a traceback of the user's code, a message on standard error, and an exit code."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

import streamtopo
from streamtopo.errors import StreamtopoError

PACKAGE = str(Path(streamtopo.__file__).parent)
STANDARD_LIBRARY = sysconfig.get_path("stdlib")
INSTALLED = sysconfig.get_path("purelib")
IMPORTLIB = str(Path(traceback.__file__).parent / "importlib")
KAFKA_CLIENT = "/confluent_kafka/"
FAILED, INTERRUPTED = 1, 130
_VERBOSE = "streamtopo.verbose"


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
    return full_traceback(error) if context.meta.get(_VERBOSE) else short_message(error)


def full_traceback(error: StreamtopoError) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


def short_message(error: StreamtopoError) -> str:
    """Return the message, after the traceback of its cause if that came from the user's code."""
    message = f"Error: {error}"
    if error.__cause__ is None:
        return message
    cause = traceback.TracebackException.from_exception(error.__cause__)
    return "".join(cause.format()) + message if _remove_engine_frames(cause, error.__cause__) else message


def _remove_engine_frames(report: traceback.TracebackException, error: BaseException) -> bool:
    """Keep only the user's frames in the report of this error and of its causes. Return whether there are any."""
    user_frames = [frame for frame in report.stack if _is_user_frame(frame.filename)]
    report.stack = traceback.StackSummary.from_list(user_frames)
    report.__cause__ = _from_the_user(report.__cause__, error.__cause__)
    report.__context__ = _from_the_user(report.__context__, error.__context__)
    by_user = not all(_is_standard_library(frame.filename) for frame in user_frames)
    return bool(by_user or report.__cause__ or isinstance(error, SyntaxError))


def _from_the_user(
    report: traceback.TracebackException | None, error: BaseException | None
) -> traceback.TracebackException | None:
    if report is None or error is None or type(error).__module__.startswith("streamtopo.engine"):
        return None
    return report if _remove_engine_frames(report, error) else None


def _is_user_frame(filename: str) -> bool:
    return not filename.startswith((PACKAGE, IMPORTLIB, "<frozen ")) and KAFKA_CLIENT not in filename


def _is_standard_library(filename: str) -> bool:
    return filename.startswith(STANDARD_LIBRARY) and not filename.startswith(INSTALLED)


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
