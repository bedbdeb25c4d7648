"""The functions that cases name, compiled from the Python text in functions.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from streamtopo import Windowed

Function = Callable[..., Any]
"""Joiners take (left, right), reducers and aggregators (aggregate, value), mappers and predicates (key, value)."""

_TEXTS: dict[str, str] = {}


def learn(folder: Path) -> None:
    """Read a folder's functions.json, if there is one, in addition to the functions known already."""
    path = folder / "functions.json"
    if path.exists():
        _TEXTS.update({name: entry["python"] for name, entry in json.loads(path.read_text()).items()})


def s(value: Any) -> str:
    """Return a value as the functions' texts print it."""
    if value is None:
        return "null"
    if isinstance(value, Windowed):
        return f"[{s(value.key)}@{value.start}/{value.end}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def function(spec: Any) -> Function:
    """Return the function that a case names: `"concat"`, or `{"name": "key_lt", "arg": 3}`."""
    name, argument = (spec, None) if isinstance(spec, str) else (spec["name"], spec.get("arg"))
    if name == "stateful_counter":
        return _counter()
    return partial(eval(_TEXTS[name], {"s": s}), arg=argument)


def _counter() -> Function:
    """Create a counter for each step that names it: with one partition there is one processor."""
    calls = count(1)
    return lambda key, value: next(calls)


learn(Path(__file__).parent / "cases")
