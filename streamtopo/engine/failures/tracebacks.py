"""The text of a traceback, without the frames of the engine."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

from streamtopo.engine.tracebacks import is_engine
from streamtopo.errors import safely

_BECAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
_MANY = 100
"""Of a longer chain of errors, the last ones are written."""


def name_of(error: BaseException) -> str:
    """The name of its class as in a traceback."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def traceback_text(error: BaseException) -> str:
    """As Python prints it. Python takes longer for that than the engine for many records."""
    parts, seen = [_alone(error)], {id(error)}
    while (before := _before(error)) is not None and id(before[0]) not in seen and len(seen) < _MANY:
        error, between = before
        seen.add(id(error))
        parts += [between, _alone(error)]
    return "".join(reversed(parts))


def _before(error: BaseException) -> tuple[BaseException, str] | None:
    """The error that led to this one, and what is written between them. It may be one that comes after it, too."""
    if error.__cause__ is not None:
        return error.__cause__, _BECAUSE
    if error.__context__ is not None and not error.__suppress_context__:
        return error.__context__, _DURING
    return None


def _alone(error: BaseException) -> str:
    frames = "".join([_frame(code, line) for code, line in _frames(error)])
    return ("Traceback (most recent call last):\n" if frames else "") + frames + _last(error)


def _last(error: BaseException) -> str:
    if isinstance(error, SyntaxError | BaseExceptionGroup) or hasattr(error, "__notes__"):
        return "".join(traceback.format_exception_only(error))
    text = safely(str, error)
    return f"{name_of(error)}: {text}\n" if text else f"{name_of(error)}\n"


def _frames(error: BaseException) -> Iterator[tuple[CodeType, int]]:
    step = error.__traceback__
    while step is not None:
        if not is_engine(step):
            yield step.tb_frame.f_code, step.tb_lineno
        step = step.tb_next


@lru_cache(maxsize=1000)
def _frame(code: CodeType, line: int) -> str:
    """Cached, because the same step often fails in the same place."""
    return "".join(traceback.format_list([traceback.FrameSummary(code.co_filename, line, code.co_name)]))
