"""Whether a function of the user can return anything, as its code shows."""

from __future__ import annotations

import dis
from functools import partial
from itertools import pairwise
from types import FunctionType, MethodType
from typing import Any


def returns_nothing(function: Any) -> bool:
    """Whether it can only return None. False for a lambda, whose result is written out, and if it is not known."""
    while isinstance(function, partial | MethodType):
        function = function.func if isinstance(function, partial) else function.__func__
    if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
        return False
    pairs = pairwise(dis.get_instructions(function.__code__))
    returns = [_is_none(before, one) for before, one in pairs if one.opname in ("RETURN_VALUE", "RETURN_CONST")]
    return bool(returns) and all(returns)


def _is_none(before: dis.Instruction, one: dis.Instruction) -> bool:
    if one.opname == "RETURN_CONST":
        return one.argval is None
    # If it can be jumped to, another value may be returned: `return row or None`.
    return before.opname == "LOAD_CONST" and before.argval is None and not one.is_jump_target
