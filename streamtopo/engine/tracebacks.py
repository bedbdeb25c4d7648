"""Tracebacks of errors without the engine's frames: what is left is the user's program, and what that called."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from itertools import dropwhile
from types import TracebackType

from streamtopo.errors import StepError

logger = logging.getLogger("streamtopo")

_ENGINE = ("streamtopo", "confluent_kafka", "py4j", "pyspark")
"""Packages whose frames say nothing about the user's program."""
_STANDARD_LIBRARY = os.path.dirname(os.__file__)
_INSTALLED = f"{os.sep}site-packages{os.sep}"


def without_engine(error: BaseException) -> BaseException:
    """The same error: it, its causes and its contexts lose the engine's frames.

    At the log level DEBUG of the logger "streamtopo" they keep them.
    """
    if logger.level != logging.DEBUG:
        _shorten(error, set())
    return error


def is_users(error: BaseException) -> bool:
    """Whether it comes from the user's program. Call this after `without_engine`."""
    chained = filter(None, (error.__cause__, error.__context__))
    return error.__traceback__ is not None or isinstance(error, SyntaxError) or any(map(is_users, chained))


def is_engine(frame: TracebackType) -> bool:
    """Whether it is the engine's, or that of an import."""
    module = str(frame.tb_frame.f_globals.get("__name__"))
    return module.partition(".")[0] in _ENGINE or frame.tb_frame.f_code.co_filename.startswith("<frozen ")


def _shorten(error: BaseException, seen: set[int]) -> bool:
    """Return whether something is left of it. The engine's own errors, and those that it caught, leave nothing."""
    if id(error) in seen:
        return True
    seen.add(id(error))
    raised = error.__traceback__ is not None
    error.__traceback__ = _linked(dropwhile(_is_standard_library, _users(error.__traceback__)))
    for inner in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        _shorten(inner, seen)
    if error.__context__ is not None and not _shorten(error.__context__, seen):
        error.__context__ = None
    if error.__cause__ is not None and not _shorten(error.__cause__, seen) and not isinstance(error, StepError):
        error.__cause__ = None
    ours = type(error).__module__.startswith("streamtopo.engine")
    return not ours and (not raised or is_users(error))


def _users(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        if not is_engine(traceback):
            yield traceback
        traceback = traceback.tb_next


def _is_standard_library(frame: TracebackType) -> bool:
    """Where threads and event loops begin, before the user's program."""
    file = frame.tb_frame.f_code.co_filename
    return file.startswith(_STANDARD_LIBRARY) and _INSTALLED not in file


def _linked(frames: Iterator[TracebackType]) -> TracebackType | None:
    following = None
    for frame in reversed(list(frames)):
        following = TracebackType(following, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return following
