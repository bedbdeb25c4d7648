"""The user's functions that add records to rows, and a warning about one that forgets to return the row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice, repeat
from typing import Any

from streamtopo.records import private
from streamtopo.topology.functions import shown

Add = Callable[[Any, Any, Any], Any]
"""(key, value, row) -> the new row, or None to delete it. It may change the row in place and return it."""


class Adders:
    """One for each parent. The first call is watched; the others cost nothing more."""

    def __init__(self, adders: Sequence[Add], prepare: Callable[[Add], Add] = lambda adder: adder) -> None:
        """Calls are made through what `prepare` makes of an adder."""
        self._adders = [prepare(adder) for adder in adders]
        self._watched = [prepare(_watched(adder)) for adder in adders]

    def of(self, sides: list[int] | None) -> Iterable[Add]:
        """The adder for each row of a chunk with these sides."""
        adders = self._adders
        each: Iterable[Add] = repeat(adders[0]) if len(adders) == 1 else [adders[side] for side in sides or ()]
        if not self._watched:
            return each
        first = self._watched[sides[0] if sides and len(adders) > 1 else 0]
        self._watched = []
        return chain([first], islice(each, 1, None))


def _watched(adder: Add) -> Add:
    def add(key: Any, value: Any, row: Any) -> Any:
        before = private(row)
        result = adder(key, value, row)
        if result is None and _differ(before, row):
            _warn(shown(adder))
        return result

    return add


def _differ(before: Any, row: Any) -> bool:
    """Whether it was changed in place. False if its type does not compare values, so that this is not known."""
    try:
        return bool(private(before) == before != row)
    except Exception:  # such as that of an array, whose comparison is an array
        return False


@lru_cache(maxsize=100)
def _warn(adder: str) -> None:
    """Once for each adder."""
    import logging  # `import streamtopo` is quick without it

    logging.getLogger("streamtopo").warning(
        "%s changed the row in place and returned None, which deletes the row; if you want to keep it, return it",
        adder,
    )
