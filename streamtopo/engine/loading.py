"""Loads the topology that a user names on the command line: `module`, `module:attribute` or a path."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from streamtopo.dsl.builder import StreamsBuilder
from streamtopo.errors import TopologyError
from streamtopo.topology import Topology

Described = Topology | StreamsBuilder


def load_topology(text: str) -> Topology:
    """The topology of an application. Without an attribute: the one called `topology`, or the only one.

    An attribute may be a function that returns it.
    """
    module = load_module(text)
    attribute = text.partition(":")[2]
    return topology_of(_chosen(module, attribute) if attribute else _the_one(module))


def topology_of(given: Described | str) -> Topology:
    """What is given where a topology is needed: one, the builder of one, or the text that names its application."""
    if isinstance(given, str):
        return load_topology(given)
    if isinstance(given, StreamsBuilder):
        return given.build()
    if isinstance(given, Topology):
        return given
    raise TopologyError(
        f"{given!r} is not a topology; give a Topology, a StreamsBuilder, or a name such as apps.wordcount"
    )


def load_module(text: str) -> ModuleType:
    place = text.partition(":")[0]
    _make_importable(Path.cwd())
    return _at_path(Path(place)) if _is_path(place) else _imported(place)


def _is_path(place: str) -> bool:
    return "/" in place or os.sep in place or place.startswith(".") or place.endswith(".py")


def _at_path(path: Path) -> ModuleType:
    whole = path.resolve()
    if whole.name == "__init__.py":
        whole = whole.parent
    _check(path, whole)
    root = next(folder for folder in whole.parents if not (folder / "__init__.py").is_file())
    _make_importable(root)
    name = ".".join(whole.relative_to(root).with_suffix("").parts)
    module = _imported(name)
    if Path(module.__file__ or "").resolve() not in (whole, whole / "__init__.py"):
        taken = module.__file__ or "Python itself"
        raise TopologyError(
            f'"{path}" cannot be imported, because the name "{name}" is taken by {taken}; rename the file'
        )
    return module


def _check(path: Path, whole: Path) -> None:
    if not whole.exists():
        raise TopologyError(f'there is no file or folder "{path}" in {Path.cwd()}')
    if whole.is_dir() and not (whole / "__init__.py").is_file():
        raise TopologyError(f'folder "{path}" has no __init__.py, so it is not an application; name a file in it')
    if whole.is_file() and whole.suffix != ".py":
        raise TopologyError(f'"{path}" is not a Python file; name one that ends in .py')


def _make_importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:
        if _is_missing(name, error):
            raise TopologyError(
                f'there is no module "{name}"; run from the folder that contains it (this is {Path.cwd()}), or give a '
                "path"
            ) from None
        raise TopologyError(f'importing "{name}" failed: {type(error).__name__}: {error}') from error


def _is_missing(name: str, error: BaseException) -> bool:
    """The named module does not exist (not one that it imports itself)."""
    if isinstance(error, ModuleNotFoundError):
        return f"{name}.".startswith(f"{error.name}.")
    return not name


def _chosen(module: ModuleType, attribute: str) -> Described:
    if not hasattr(module, attribute):
        raise TopologyError(f'module "{module.__name__}" has no "{attribute}"; it has {_listed(module)}')
    found: Any = getattr(module, attribute)
    if isinstance(found, Topology | StreamsBuilder):
        return found
    if callable(found) and not isinstance(found, type):
        return _made(f"{module.__name__}:{attribute}", found)
    kind = f"the class {found.__name__}" if isinstance(found, type) else f"of type {type(found).__name__}"
    raise TopologyError(
        f'"{module.__name__}:{attribute}" is not a Topology or StreamsBuilder, but {kind}; '
        f"the module has {_listed(module)}"
    )


def _made(name: str, function: Callable[..., Any]) -> Described:
    """What a function without parameters returns."""
    if needed := _needed_parameters(function):
        raise TopologyError(
            f'"{name}" is a function that needs {" and ".join(needed)}; an application is made without arguments: '
            "give the parameters defaults, or write a function without any that calls it"
        )
    try:
        made = function()
    except (Exception, SystemExit) as error:
        raise TopologyError(f'calling "{name}" failed: {type(error).__name__}: {error}') from error
    if isinstance(made, Topology | StreamsBuilder):
        return made
    if hasattr(made, "__await__"):
        made.close()
        raise TopologyError(f'"{name}" is a coroutine function; write it with def, because it must not wait')
    raise TopologyError(
        f'"{name}" returned {made!r:.80}; let it return the topology (return builder.build()) or the builder'
    )


def _needed_parameters(function: Callable[..., Any]) -> list[str]:
    variable = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    parameters = signature(function).parameters.values()
    return [f'"{one.name}"' for one in parameters if one.default is one.empty and one.kind not in variable]


def _the_one(module: ModuleType) -> Described:
    if hasattr(module, "topology") and not isinstance(module.topology, ModuleType):
        return _chosen(module, "topology")
    named = _found(module, Topology) or _found(module, StreamsBuilder)
    different = list({id(one): one for one in named.values()}.values())
    if len(different) == 1:
        return different[0]
    named = named or _functions(module)
    hint = f"say which: {module.__name__}:{next(iter(named))}" if named else 'call the topology "topology"'
    raise TopologyError(f'module "{module.__name__}" has {_listed(module)}; {hint}')


def _functions(module: ModuleType) -> dict[str, Any]:
    """The module's own functions that may make a topology; `main` usually does more."""
    own = {name: one for name, one in vars(module).items() if getattr(one, "__module__", None) == module.__name__}
    return {
        name: one
        for name, one in own.items()
        if isinstance(one, FunctionType) and name != "main" and not _needed_parameters(one)
    }


def _found(module: ModuleType, kind: type[Described]) -> dict[str, Described]:
    return {name: value for name, value in sorted(vars(module).items()) if isinstance(value, kind)}


def _listed(module: ModuleType) -> str:
    if named := _found(module, Topology) | _found(module, StreamsBuilder):
        return ", ".join(named)
    functions = _functions(module)
    return "no Topology and no StreamsBuilder" + (f", but a function ({', '.join(functions)})" if functions else "")
