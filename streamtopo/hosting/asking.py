"""Questions to a store from an event loop, which is never kept waiting: not for other processes, nor for many rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Executor
from itertools import islice
from typing import Any, TypeVar

from streamtopo.hosting.answers import Answer, Found, NotOwner, Restoring
from streamtopo.hosting.query import Query
from streamtopo.hosting.waiting import Patience
from streamtopo.stores import StoreSpec
from streamtopo.stores.versions import Version
from streamtopo.stores.views import Pair

Result = TypeVar("Result")

_PAGE = 500
"""Rows that are fetched at a time."""


class AsyncQuery:
    """`near` asks this process alone, which takes microseconds; `far` asks others too, from one of these threads."""

    def __init__(self, near: Query, far: Query, patience: Patience, threads: Callable[[], Executor]) -> None:
        self._threads = threads
        self._near = near
        self._far = far
        self._patience = patience

    @property
    def spec(self) -> StoreSpec:
        return self._near.spec

    async def get(self, key: Any) -> Any:
        return (await self.find(key)).value

    async def find(self, key: Any) -> Found:
        return await self._patience.until_async(lambda: self._find(key))

    async def ask(self, key: Any) -> Answer:
        try:
            return await self.find(key)
        except (NotOwner, Restoring) as answer:
            return answer

    def range(self, start: Any = None, stop: Any = None, *, reverse: bool = False) -> AsyncIterator[Pair]:
        return self._pairs(lambda: self._far.range(start, stop, reverse=reverse))

    def prefix(self, prefix: bytes | str) -> AsyncIterator[Pair]:
        return self._pairs(lambda: self._far.prefix(prefix))

    def all(self) -> AsyncIterator[Pair]:
        return self._pairs(self._far.all)

    async def count(self) -> int:
        return await self._patience.until_async(lambda: self._beside(self._far.count))

    async def window(self, key: Any, start: int | None = None, stop: int | None = None) -> list[Pair]:
        return await self._patience.until_async(lambda: self._beside(self._far.window, key, start, stop))

    async def session(self, key: Any, start: int | None = None, stop: int | None = None) -> list[Pair]:
        return await self._patience.until_async(lambda: self._beside(self._far.session, key, start, stop))

    async def versioned(self, key: Any, as_of: int | None = None) -> Version | None:
        return await self._patience.until_async(lambda: self._beside(self._far.versioned, key, as_of))

    def _beside(self, question: Callable[..., Result], *arguments: Any) -> Awaitable[Result]:
        return asyncio.get_running_loop().run_in_executor(self._threads(), question, *arguments)

    async def _find(self, key: Any) -> Found:
        try:
            return self._near.find(key)
        except NotOwner:
            return await self._beside(self._far.find, key)

    async def _pairs(self, rows: Callable[[], Iterator[Pair]]) -> AsyncIterator[Pair]:
        pairs = await self._patience.until_async(lambda: self._beside(rows))
        while page := await self._patience.until_async(lambda: self._beside(_page, pairs)):
            for pair in page:
                yield pair


def _page(pairs: Iterator[Pair]) -> list[Pair]:
    """The next rows; where a task goes away in the middle of them, those before that."""
    page: list[Pair] = []
    try:
        page.extend(islice(pairs, _PAGE))
    except (NotOwner, Restoring):
        if not page:
            raise
    return page
