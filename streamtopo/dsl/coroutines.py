"""The operators of a stream that wait for coroutines: a service to ask, a model to wait for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from streamtopo.dsl.naming import next_serde
from streamtopo.durations import Duration, milliseconds
from streamtopo.operators.awaited import Awaited, Patience, for_each_async, map_values_async
from streamtopo.serdes import SerdeLike
from streamtopo.topology import Operator

if TYPE_CHECKING:
    from streamtopo.dsl.kstream import KStream

_FIRST_PAUSE = 0.1
"""Seconds before a call is tried again for the first time."""
_ROUND_OF_CALLS = 10
"""Calls after each other before there may be a commit: as many times `concurrency`."""


class Coroutines:
    """These operators of a KStream."""

    def map_values_async(
        self,
        function: Callable[[Any], Awaitable[Any]],
        *,
        concurrency: int = 100,
        timeout: Duration = "30s",
        retries: int = 0,
        value: SerdeLike | None = None,
        name: str | None = None,
    ) -> KStream:
        """The awaited `function(value)` for each record, in order, up to `concurrency` of them under way at once.

        A call that fails or takes longer than `timeout` is tried again `retries` times, then its record has failed as
        in any other step. Nothing is committed before it is done, so after a failure calls are made again.
        """
        patience = Patience(concurrency, milliseconds(timeout) / 1000, retries, _FIRST_PAUSE)
        return _awaiting(self, "KSTREAM-MAPVALUES-", name, Awaited(map_values_async, function, patience), value)

    def for_each_async(
        self,
        function: Callable[[Any, Any], Awaitable[Any]],
        *,
        concurrency: int = 100,
        timeout: Duration = "30s",
        retries: int = 0,
        name: str | None = None,
    ) -> None:
        """Await `function(key, value)` for each record; several are under way at once, begun in order."""
        patience = Patience(concurrency, milliseconds(timeout) / 1000, retries, _FIRST_PAUSE)
        _awaiting(self, "KSTREAM-FOREACH-", name, Awaited(for_each_async, function, patience))


def _awaiting(
    operators: Coroutines, prefix: str, name: str | None, opening: Awaited, value: SerdeLike | None = None
) -> KStream:
    stream = cast("KStream", operators)
    operator = Operator(
        lambda bindings: opening.step(bindings.await_all), at_once=_ROUND_OF_CALLS * opening.patience.concurrency
    )
    node = stream.graph.process(stream.graph.name(prefix, name), (stream.node,), operator)
    return replace(stream, node=node, value=next_serde(value, stream.value))
