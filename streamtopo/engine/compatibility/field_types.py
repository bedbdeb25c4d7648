"""Checks whether a field with a changed type still reads the old rows, as many changes only widen or name a type."""

from __future__ import annotations

import ast
from typing import Any

_BARE = {"list": "list[Any]", "set": "set[Any]", "tuple": "tuple[Any, Ellipsis]", "dict": "dict[str, Any]"}
_JSON = {"str", "int", "float", "bool", "None", "list", "dict", "Any"}


def readable(was: str, now: str, *, key: bool = False) -> bool:
    """Whether values that were written with one type are read as the same values with the other.

    Types are texts from `fields_of`. A key must be found again, so it must also be written as the same bytes.

    >>> readable("list[int]", "list[None | int]"), readable("dict", "dict[str, Any]"), readable("int", "str")
    (True, True, False)
    """
    if was == now:
        return True
    try:
        before, after = (_members(ast.parse(text, mode="eval").body) for text in (was, now))
        return _is_read(before, after, widened=not key)
    except SyntaxError:  # a name that is not valid in Python
        return False


def _members(node: Any) -> list[Any]:
    """The members of a union, or the type itself, as (name, types of its parts)."""
    if isinstance(node, ast.BinOp):
        return _members(node.left) + _members(node.right)
    if (bare := _BARE.get(ast.unparse(node))) is not None:
        return _members(ast.parse(bare, mode="eval").body)
    if not isinstance(node, ast.Subscript):
        name = ast.unparse(node)
        return [("Any" if name == "object" else name, [])]
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [(ast.unparse(node.value), list(map(_members, parts)))]


def _is_read(was: list[Any], now: list[Any], *, widened: bool) -> bool:
    """With `widened`, ints may be read as floats."""
    return all(any(_is_one_read(one, other, widened) for other in now) for one in was)


def _is_one_read(was: tuple[str, list[Any]], now: tuple[str, list[Any]], widened: bool) -> bool:
    (name, parts), (other, others) = was, now
    if other == "Any":
        parts = parts[1:] if name == "dict" else parts
        return name in _JSON and _by_text(was) and all(_is_read(part, [now], widened=widened) for part in parts)
    if name != other:
        return widened and name == "int" and other == "float"
    if name == "dict" and parts[0] != others[0]:
        return _by_text(was) and _by_text(now) and _is_read(parts[1], others[1], widened=widened)
    return len(parts) == len(others) and all(
        _is_read(part, another, widened=widened) for part, another in zip(parts, others, strict=True)
    )


def _by_text(kind: tuple[str, list[Any]]) -> bool:
    """Whether it is not a dict, or a dict whose keys are strings, as in JSON."""
    return kind[0] != "dict" or kind[1][0] in ([("str", [])], [("Any", [])])
