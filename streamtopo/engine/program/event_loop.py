"""Runs the user's coroutines on an event loop of its own, separate from that of a service."""

from __future__ import annotations

import asyncio
import threading
from functools import cache
from typing import Any

from streamtopo.errors import StreamtopoError, faults
from streamtopo.topology.coroutines import CallLimits, Coroutine, Raised


def await_all(function: Coroutine, columns: list[list[Any]], limits: CallLimits) -> list[Any]:
    """All results in the order of the rows, when all calls have ended."""
    waiting = asyncio.run_coroutine_threadsafe(_all(function, columns, limits), _loop())
    try:
        return waiting.result()
    except _Ended as ended:
        raise ended.error from None
    except BaseException:
        waiting.cancel()
        raise


class _Ended(BaseException):
    """A call raised what ends a program. That would end only the event loop, and nobody would get a result any more."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """One loop for all tasks of the process, so they can share the user's clients, which belong to one loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="streamtopo-async", daemon=True).start()
    return loop


async def _all(function: Coroutine, columns: list[list[Any]], limits: CallLimits) -> list[Any]:
    free = asyncio.Semaphore(limits.concurrency)

    async def one(row: tuple[Any, ...]) -> Any:
        async with free:
            return await _with_retries(function, row, limits)

    results = await asyncio.gather(*map(one, zip(*columns, strict=True)), return_exceptions=True)
    return [_result(one) for one in results]


def _result(one: Any) -> Any:
    if isinstance(one, faults()):
        return Raised(one)
    if isinstance(one, BaseException):
        raise one
    return one


async def _call(function: Coroutine, row: tuple[Any, ...]) -> Any:
    try:
        return await function(*row)
    except (KeyboardInterrupt, SystemExit) as error:
        raise _Ended(error) from error


async def _with_retries(function: Coroutine, row: tuple[Any, ...], limits: CallLimits) -> Any:
    for tried in range(1, limits.retries + 2):
        try:
            return await asyncio.wait_for(_call(function, row), limits.timeout)
        except Exception as error:
            if tried <= limits.retries:
                await asyncio.sleep(limits.pause * 2 ** (tried - 1))
            elif isinstance(error, TimeoutError):
                tries = f", tried {tried} times" if tried > 1 else ""
                raise StreamtopoError(f"no result within {limits.timeout:g} seconds{tries}") from error
            else:
                raise
    raise AssertionError("it is tried at least once")
