"""The text of a traceback, without the frames of the engine."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

from streamtopo.engine.tracebacks import is_engine

_BECAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def name_of(error: BaseException) -> str:
    """The name of its class as in a traceback."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def traceback_text(error: BaseException) -> str:
    """As Python prints it. Python takes longer for that than the engine for many records."""
    before = ""
    if error.__cause__ is not None:
        before = traceback_text(error.__cause__) + _BECAUSE
    elif error.__context__ is not None and not error.__suppress_context__:
        before = traceback_text(error.__context__) + _DURING
    frames = "".join([_frame(code, line) for code, line in _frames(error)])
    return before + ("Traceback (most recent call last):\n" if frames else "") + frames + _last(error)


def _last(error: BaseException) -> str:
    if isinstance(error, SyntaxError | BaseExceptionGroup) or hasattr(error, "__notes__"):
        return "".join(traceback.format_exception_only(error))
    text = str(error)
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
