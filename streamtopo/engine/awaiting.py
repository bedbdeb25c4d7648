"""Waits for coroutines of the user's: on one event loop of the process's own, beside whatever loop a service runs."""

from __future__ import annotations

import asyncio
import threading
from functools import cache
from typing import Any

from streamtopo.errors import StreamtopoError
from streamtopo.operators.awaited import Coroutine, Patience


def await_all(function: Coroutine, columns: list[list[Any]], patience: Patience) -> list[Any]:
    """All results in the order of the rows; the first failure, in that order too, once all have come to an end."""
    waiting = asyncio.run_coroutine_threadsafe(_all(function, columns, patience), _loop())
    try:
        return waiting.result()
    except BaseException:
        waiting.cancel()
        raise


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """One for all tasks of the process, so that clients of the user's, which belong to a loop, serve them all."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="streamtopo-async", daemon=True).start()
    return loop


async def _all(function: Coroutine, columns: list[list[Any]], patience: Patience) -> list[Any]:
    free = asyncio.Semaphore(patience.concurrency)

    async def one(row: tuple[Any, ...]) -> Any:
        async with free:
            return await _patiently(function, row, patience)

    results = await asyncio.gather(*map(one, zip(*columns, strict=True)), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


async def _patiently(function: Coroutine, row: tuple[Any, ...], patience: Patience) -> Any:
    for tried in range(1, patience.retries + 2):
        try:
            return await asyncio.wait_for(function(*row), patience.timeout)
        except Exception as error:
            if tried <= patience.retries:
                await asyncio.sleep(patience.pause * 2 ** (tried - 1))
            elif isinstance(error, TimeoutError):
                tries = f", tried {tried} times" if tried > 1 else ""
                raise StreamtopoError(f"no result within {patience.timeout:g} seconds{tries}") from error
            else:
                raise
    raise AssertionError("it is tried once at least")
