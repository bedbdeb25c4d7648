"""`on_error=` of the methods that add nodes: what to do with records that fail in these nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from streamtopo.settings.on_error import policy_of

P = ParamSpec("P")
R = TypeVar("R")


def answering(method: Callable[P, R]) -> Callable[P, R]:
    """All nodes that a call of the method adds get its `on_error`; the method itself does not see it."""

    @functools.wraps(method)
    def answered(*arguments: P.args, **options: P.kwargs) -> R:
        given: Any = options.pop("on_error", None)
        if given is None:
            return method(*arguments, **options)
        owner: Any = arguments[0]
        topology = owner.graph.topology if hasattr(owner, "graph") else owner
        with topology.with_answer(policy_of(given)):
            return method(*arguments, **options)

    return answered
