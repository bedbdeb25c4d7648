"""Queries of a store from an event loop, which is not blocked by other processes, nor by many rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Executor
from itertools import islice
from typing import Any, Generic, TypeVar, cast

from streamtopo.hosting.answers import Answer, Found, NotOwner, Restoring
from streamtopo.hosting.queries.query import Query
from streamtopo.hosting.queries.waiting import Retry
from streamtopo.records.type_parameters import TK, T
from streamtopo.stores import StoreSpec
from streamtopo.stores.rows.versions import Version
from streamtopo.stores.views.key_value import Pair
from streamtopo.windows import Windowed

Result = TypeVar("Result")

_PAGE = 500
"""Number of rows that are fetched at once."""


class AsyncQuery(Generic[TK, T]):
    """`local` queries this process only, which takes microseconds; `anywhere` queries others, too, in a thread."""

    def __init__(
        self, local: Query[TK, T], anywhere: Query[TK, T], retry: Retry, threads: Callable[[], Executor]
    ) -> None:
        self._threads = threads
        self._local = local
        self._anywhere = anywhere
        self._retry = retry

    def __repr__(self) -> str:
        return f"AsyncQuery({self.spec.shown})"

    @property
    def spec(self) -> StoreSpec:
        return self._local.spec

    async def get(self, key: TK) -> T | None:
        return cast("T | None", (await self.find(key)).value)

    async def find(self, key: TK) -> Found:
        return await self._retry.call_async(lambda: self._find(key))

    async def ask(self, key: TK) -> Answer:
        try:
            return await self.find(key)
        except (NotOwner, Restoring) as answer:
            return answer

    def range(self, start: Any = None, stop: Any = None, *, reverse: bool = False) -> AsyncIterator[tuple[Any, T]]:
        return self._pairs(lambda: self._anywhere.range(start, stop, reverse=reverse))

    def prefix(self, prefix: bytes | str) -> AsyncIterator[tuple[TK, T]]:
        return self._pairs(lambda: self._anywhere.prefix(prefix))

    def all(self) -> AsyncIterator[tuple[Any, T]]:
        return self._pairs(self._anywhere.all)

    async def count(self) -> int:
        return await self._retry.call_async(lambda: self._in_thread(self._anywhere.count))

    async def window(self, key: TK, start: int | None = None, stop: int | None = None) -> list[tuple[Windowed[TK], T]]:
        return await self._retry.call_async(lambda: self._in_thread(self._anywhere.window, key, start, stop))

    async def session(self, key: TK, start: int | None = None, stop: int | None = None) -> list[tuple[Windowed[TK], T]]:
        return await self._retry.call_async(lambda: self._in_thread(self._anywhere.session, key, start, stop))

    async def kept_from(self, key: TK) -> int:
        return await self._retry.call_async(lambda: self._in_thread(self._anywhere.kept_from, key))

    async def versioned(self, key: TK, as_of: int | None = None) -> Version[T] | None:
        return await self._retry.call_async(lambda: self._in_thread(self._anywhere.versioned, key, as_of))

    def _in_thread(self, function: Callable[..., Result], *arguments: Any) -> Awaitable[Result]:
        return asyncio.get_running_loop().run_in_executor(self._threads(), function, *arguments)

    async def _find(self, key: Any) -> Found:
        try:
            return self._local.find(key)
        except NotOwner:
            return await self._in_thread(self._anywhere.find, key)

    async def _pairs(self, rows: Callable[[], Iterator[Pair]]) -> AsyncIterator[Pair]:
        pairs = await self._retry.call_async(lambda: self._in_thread(rows))
        while page := await self._retry.call_async(lambda: self._in_thread(_page, pairs)):
            for pair in page:
                yield pair


def _page(pairs: Iterator[Pair]) -> list[Pair]:
    """Return the next rows; if a task moves away in the middle, those before."""
    page: list[Pair] = []
    try:
        page.extend(islice(pairs, _PAGE))
    except (NotOwner, Restoring):
        if not page:
            raise
    return page
