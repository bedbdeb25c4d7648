"""Places in the user's program: by these, errors and drawings name the steps of a topology."""

from __future__ import annotations

import inspect
import sys
from contextlib import suppress
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, NamedTuple

_PACKAGE = __name__.partition(".")[0]


class CodePlace(NamedTuple):
    """Where a step is made: its function or, if that is not written in Python, the call that makes the step."""

    function: str
    """Its name, or "" if there is no function."""
    file: str
    """The whole path."""
    line: int

    def __str__(self) -> str:
        where = f"{_short(self.file)}:{self.line}"
        return f"{self.function}, {where}" if self.function else where


def code_place_of(function: object = None) -> CodePlace | None:
    """The place of a function of the user's; without one, that of the line of the user's program that runs now."""
    name = ""
    with suppress(Exception):  # proxy objects may raise at any access
        function = _undecorated(function)
        if function is not None and not _is_ours(getattr(function, "__module__", None)):
            name = name_of(function)
            if (code := _code_of(function)) is not None:
                return CodePlace(name, code.co_filename, code.co_firstlineno)
    caller = _caller()
    return caller and CodePlace(name, caller.f_code.co_filename, caller.f_lineno)


def name_of(function: Any) -> str:
    """What people call it: without the function that it is defined in, and "lambda" for a lambda."""
    while isinstance(function, partial):
        function = function.func
    name = str(getattr(function, "__qualname__", type(function).__qualname__)).rpartition("<locals>.")[2]
    return "lambda" if name.endswith("<lambda>") else name


def _undecorated(function: Any) -> Any:
    """The function that a partial or a decorator calls."""
    while isinstance(function, partial):
        function = function.func
    inner = inspect.unwrap(function)
    return inner if inner is function else _undecorated(inner)


def _code_of(function: Any) -> CodeType | None:
    match function:
        case FunctionType(__code__=code):
            return code
        case MethodType(__func__=method):
            return _code_of(method)
        case type():
            return next((one.__code__ for one in vars(function).values() if _is_written_in(function, one)), None)
        case _:
            call = type(function).__call__
            return call.__code__ if isinstance(call, FunctionType) else None


def _is_written_in(owner: type, method: object) -> bool:
    """False for methods that a decorator such as `dataclass` has made."""
    if not isinstance(method, FunctionType) or method.__code__.co_filename == "<string>":
        return False
    return method.__globals__.get("__name__") == owner.__module__


def _caller() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return frame


def _is_ours(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == _PACKAGE


def _short(file: str) -> str:
    """Without its folder, unless it only has a name together with that."""
    *folders, name = file.replace("\\", "/").split("/")
    return f"{folders[-1]}/{name}" if name == "__init__.py" and folders else name
