"""`on_error=` of the methods that add nodes: what to do with records that fail in these nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from streamtopo.settings.on_error import policy_of

Method = TypeVar("Method", bound=Callable[..., Any])


def answering(method: Method) -> Method:
    """All nodes that a call of the method adds get its `on_error`; the method itself does not see it."""

    @functools.wraps(method)
    def answered(*arguments: Any, **options: Any) -> Any:
        given = options.pop("on_error", None)
        if given is None:
            return method(*arguments, **options)
        owner = arguments[0]
        topology = owner.graph.topology if hasattr(owner, "graph") else owner
        with topology.with_answer(policy_of(given)):
            return method(*arguments, **options)

    return cast(Method, answered)
