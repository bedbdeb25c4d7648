"""For functions of tests that change a value in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar
from zlib import crc32

F = TypeVar("F", bound=Callable[..., Any])
_weak = False


def weak(function: F) -> F:
    """In the block of `weakness`, it fails for some arguments, after it has changed them."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        if not _weak:
            return function(*arguments)
        given = f"{function.__name__} {arguments}"
        result = function(*arguments)
        fail_sometimes(given)
        return result

    return call  # type: ignore[return-value]


def fail_sometimes(given: str) -> None:
    if _weak and crc32(given.encode()) % 12 == 0:
        raise ValueError(given)


@contextmanager
def weakness() -> Iterator[None]:
    global _weak
    _weak = True
    try:
        yield
    finally:
        _weak = False


@weak
def added(row: list[Any], more: list[Any]) -> list[Any]:
    """The row, which has more values now."""
    row.extend(more)
    return row
