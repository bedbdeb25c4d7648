"""Checks, while a topology is described, that the functions of the user can be called as they will be."""

from __future__ import annotations

import inspect
from functools import partial
from inspect import Parameter, Signature
from typing import Any

from streamtopo.errors import TopologyError
from streamtopo.topology.code_places import code_place_of, name_of
from streamtopo.topology.results import returns_nothing

_NUMBERS = ("none", "one", "two", "three", "four", "five")
_AWAITING = {"map_values": "map_values_async", "for_each": "for_each_async"}
"""Methods that await a function, by those that call it the same way."""


def check_function(
    caller: str, form: str, function: Any, *, with_key: bool | None = None, returns: str = "", awaited: bool = False
) -> None:
    """Raise TopologyError unless `caller` can call the function as in `form`, such as "function(key, value)".

    `with_key` is the option of the caller, if it has one. `returns` says what the function must return, if None cannot
    be meant. With `awaited`, the function is a coroutine function.
    """
    calls = f"{caller} {'awaits' if awaited else 'calls'} {form}"
    if not callable(function):
        raise TopologyError(f"{calls}, but was given {function!r:.80}; give a function or a class")
    if not awaited and _is_coroutine(function):
        raise TopologyError(
            f"{caller} calls a plain function, but {shown(function)} is a coroutine (async def); "
            f"use {_AWAITING.get(caller, 'map_values_async before this, and its result here')}"
        )
    signature = _signature(function)
    given = form.partition("(")[2].rstrip(")").split(", ") if not form.endswith("()") else []
    if signature is not None and not _fits(signature, len(given)):
        raise TopologyError(
            f"{calls}, but {shown(function)} {_taken(signature)}; {_fix(function, signature, given, with_key)}"
        )
    if returns and returns_nothing(function):
        raise TopologyError(
            f"{caller} keeps what {form} returns, but {shown(function)} can only return None, which deletes the row; "
            f"end it with: return {returns}"
        )


def with_key_or_not(name: str, with_key: bool, parameters: str = "value") -> str:
    """The form of a call of a method with the option `with_key`."""
    return f"{name}({'key, ' if with_key else ''}{parameters})"


def check_timestamp_function(caller: str, function: Any) -> None:
    """The same for the function that gives the times of a source."""
    form = "timestamp(key, value, times)" if can_take(function, 3) else "timestamp(key, value)"
    check_function(caller, form, function)


def can_take(function: Any, number: int) -> bool:
    """Whether it is known to take this number of arguments."""
    signature = _signature(function)
    return signature is not None and _fits(signature, number)


def shown(function: Any) -> str:
    """The function with the names of its parameters, and its place: `look_up(key, value)` (orders.py:31)."""
    signature = _signature(function)
    parameters = "…" if signature is None else ", ".join(map(_parameter, signature.parameters.values()))
    name = name_of(function)
    text = _lambda(parameters) if name == "lambda" else f"{name}({parameters})"
    place = code_place_of(function)
    return f"`{text}`" if place is None else f"`{text}` ({place._replace(function='')})"


def _is_coroutine(function: Any) -> bool:
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return any(is_kind(one) for is_kind in kinds for one in (function, type(function).__call__))


def _signature(function: Any) -> Signature | None:
    """None if it is not known, as with many functions in C. A decorator's own one counts: it is what is called."""
    try:
        return inspect.signature(function, follow_wrapped=False)
    except Exception:  # proxy objects may raise anything
        return None


def _fits(signature: Signature, number: int) -> bool:
    try:
        signature.bind(*range(number))
    except TypeError:
        return False
    return True


def _required_by_name(signature: Signature) -> list[str]:
    parameters = signature.parameters.values()
    return [one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY and one.default is Parameter.empty]


def _taken(signature: Signature) -> str:
    """How many arguments it takes: "takes two"."""
    if named := _required_by_name(signature):
        return f"also needs {', '.join(f'{name}=…' for name in named)}"
    parameters = signature.parameters.values()
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    least, most = sum(one.default is one.empty for one in positional), len(positional)
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return f"takes {_number(least)} or more"
    return f"takes {_number(least)}" if least == most else f"takes {_number(least)} to {_number(most)}"


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _fix(function: Any, signature: Signature, given: list[str], with_key: bool | None) -> str:
    if with_key is False and _fits(signature, len(given) + 1):
        return "pass with_key=True"
    if with_key and _fits(signature, len(given) - 1):
        return "leave out with_key=True"
    parameters, name = ", ".join(given), name_of(function)
    if name == "lambda":
        return f"write {_lambda(parameters)}: …"
    if isinstance(function, type | partial) or _required_by_name(signature):
        return f"write {_lambda(parameters)}: {name}(…)"
    return f"give it the parameters ({parameters})"


def _lambda(parameters: str) -> str:
    return f"lambda {parameters}".rstrip()


def _parameter(parameter: Parameter) -> str:
    if parameter.default is not parameter.empty or parameter.kind is parameter.KEYWORD_ONLY:
        return f"{parameter.name}=…"
    return str(parameter.replace(annotation=parameter.empty))
