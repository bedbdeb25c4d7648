"""The pages about classes and functions, from their signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, get_overloads


class ApiPage(NamedTuple):
    """A page: its file, title and first paragraph, and what is on it, by module."""

    file: str
    title: str
    about: str
    names: dict[str, list[str]]


API = [
    ApiPage(
        "streams",
        "API: streams and tables",
        "What describes an application. [Streams](../streams.md), [tables](../tables.md), [windows](../windows.md) and "
        "[joins](../joins.md) explain it with examples; [operators](../operators.md) lists all methods.",
        {
            "streamtopo": [
                "StreamsBuilder",
                "KStream",
                "KTable",
                "GlobalKTable",
                "KGroupedStream",
                "KGroupedTable",
                "TimeWindowedKStream",
                "SessionWindowedKStream",
                "CogroupedKStream",
                "TimeWindowedCogroupedKStream",
                "SessionWindowedCogroupedKStream",
            ],
        },
    ),
    ApiPage(
        "values",
        "API: windows, times, types and aggregators",
        "What the methods of streams and tables are given.",
        {
            "streamtopo": [
                "Windows",
                "Windowed",
                "Timestamp",
                "Times",
                "MaxAhead",
                "Serde",
                "time_windowed",
                "session_windowed",
                "until_window_closes",
                "until_time_limit",
                "Suppressed",
            ],
            "streamtopo.aggregators": [
                *("sum", "min", "max", "mean", "first", "last", "top_k", "collect", "Aggregator"),
            ],
        },
    ),
    ApiPage(
        "processors",
        "API: processors, stores and topologies",
        "What a [processor](../processors.md) of yours uses, and topologies that are built by hand.",
        {
            "streamtopo": [
                *("Processor", "ProcessorContext", "ValueTransformer", "Record"),
                *("key_value_store", "window_store", "session_store", "versioned_store", "retaining_duplicates"),
            ],
            "streamtopo.stores.views.key_value": ["KeyValueStore", "VersionedStore"],
            "streamtopo.stores.views.window": ["WindowStore"],
            "streamtopo.stores.views.session": ["SessionStore"],
            "streamtopo ": ["Topology"],
        },
    ),
    ApiPage(
        "running",
        "API: workers, services and queries",
        "What runs a topology, alone or [inside a program](../../guides/embedding.md), and answers questions about "
        "its stores.",
        {
            "streamtopo": ["Worker", "host", "lifespan"],
            "streamtopo.hosting.app": ["App", "AsyncApp", "HostError"],
            "streamtopo.hosting.queries.query": ["Query"],
            "streamtopo.hosting.answers": [
                "Found",
                "NotOwner",
                "Restoring",
                "EngineFailed",
                "UnknownStore",
                "QueryError",
            ],
            "streamtopo.web": ["application", "hosted"],
        },
    ),
    ApiPage(
        "testing",
        "API: testing",
        "What tests use: [testing](../../guides/testing.md).",
        {"streamtopo.testing": ["Driver", "DriverRecord", "DriverStore", "Cluster", "Faults", "seeds"]},
    ),
    ApiPage(
        "errors",
        "API: errors",
        "What is raised, and what can be done with records that fail: [errors](../../operating/errors.md).",
        {
            "streamtopo": ["dead_letter", "retry", "FailedRecord", "StreamtopoError"],
            "streamtopo.errors": [
                *("TopologyError", "SerdeError", "ConfigError", "PartitionError", "FingerprintError", "StepError"),
                *("LogError", "LogDamaged", "CommitsRefused", "RecordTooLarge", "BrokerError"),
                *("StoreError", "StoreFailed", "StoreInUse", "UnitWarning"),
            ],
        },
    ),
    ApiPage(
        "integrations",
        "API: Spark and Faust",
        "[Spark](../../guides/spark.md) needs the extra `spark`, [Faust](../../guides/faust.md) the extra `faust`.",
        {
            "streamtopo.spark": ["read_topic", "register", "rollup", "view", "expected", "read_rollup", "read_late"],
            "streamtopo.integrations.faust": ["attach", "Attached", "faust_serde", "faust_table", "SerdeCodec"],
        },
    ),
]

INTERNAL = {
    *("graph", "node", "origin", "check_same_builder", "add", "add_repartition", "add_store", "changelog_of"),
    *("sinks", "sources", "plan", "member", "spec", "adder", "merger", "encode_column", "decode_column", "start"),
    *("repartitioned", "by_key", "share", "private", "after_end", "key_size", "meaning", "column", "call_again"),
    *("milliseconds", "decode_column_partly", "inner_keys", "topic_of", "children", "with_answer", "abandon"),
    *("opening", "host", "hosted", "label", "on_start", "on_stop", "step", "identity"),
}
"""Members for the other modules of the package."""
MADE_ELSEWHERE = {
    *("KStream", "KTable", "GlobalKTable", "KGroupedStream", "KGroupedTable", "CogroupedKStream", "Windows"),
    *("TimeWindowedKStream", "SessionWindowedKStream", "TimeWindowedCogroupedKStream"),
    *("SessionWindowedCogroupedKStream", "ProcessorContext", "Processor", "ValueTransformer", "App", "AsyncApp"),
    *("KeyValueStore", "WindowStore", "SessionStore", "VersionedStore", "Query", "Suppressed", "Attached"),
    *("FailedRecord", "DriverStore"),
}
"""Classes whose objects are not made by programs, but returned by functions, or that are only subclassed."""
WIDTH = 100


def api_page(page: ApiPage) -> str:
    parts = [f"# {page.title}\n", f"{page.about}\n"]
    for module, names in page.names.items():
        for name in names:
            thing = getattr(import_module(module.strip()), name)
            parts += class_section(name, thing) if inspect.isclass(thing) else function_section(name, thing, "##")
    return "\n".join(parts)


def class_section(name: str, thing: type) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"```py\n{signature(f'class {name}', thing)}\n```\n" if has_signature(thing) else ""
    yield described(thing)
    if notes := attributes(thing):
        yield "\n".join(f"- `{field}`: {note}" for field, note in notes.items()) + "\n"
    for member, value in members(thing):
        if isinstance(value, property):
            yield f"### {name}.{member}\n\n{described(value)}"
        else:
            yield from function_section(f"{name}.{member}", value, "###")


def function_section(name: str, thing: Any, heading: str) -> Iterator[str]:
    short = name.rpartition(".")[2]
    yield f"{heading} {name}\n"
    shapes = "\n".join(signature(short, shape) for shape in forms(thing))
    yield f"```py\n{shapes}\n```\n"
    yield described(thing)


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties, in the order of the code."""
    seen = set(INTERNAL)
    for owner in thing.__mro__:
        for name, value in vars(owner).items() if owner.__module__.startswith("streamtopo") else ():
            plain = getattr(value, "__func__", value)
            if (
                not name.startswith("_")
                and name not in seen
                and (inspect.isfunction(plain) or isinstance(value, property))
            ):
                seen.add(name)
                yield name, value if isinstance(value, property) else plain


def forms(thing: Any) -> list[Any]:
    """Return the function itself or, if it takes any arguments, one overload for each kind of first argument."""
    overloads = get_overloads(inspect.unwrap(thing))
    if not overloads or str(inspect.signature(thing).return_annotation) != "Any":
        return [thing]
    kinds: dict[str, Any] = {}
    for shape in overloads:
        parameters = list(inspect.signature(shape).parameters.values())[1:]
        kinds.setdefault(str(parameters[0].annotation), shape)
    return list(kinds.values())


class _Text(str):
    """An annotation as it is written."""

    def __repr__(self) -> str:
        return str(self)


def signature(name: str, thing: Any) -> str:
    """Return the name and parameters of a function, in several lines if they are long."""
    found = inspect.signature(thing)
    parameters = [
        one.replace(annotation=written(one.annotation), default=shown(one.default))
        for one in found.parameters.values()
        if one.name not in ("self", "cls") and not one.name.startswith("_")
    ]
    result = "" if name.startswith("class ") else written(found.return_annotation)
    arrow = f" -> {result}" if isinstance(result, str) and result not in ("", "None") else ""
    inside = str(found.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    line = f"{name}{inside}{arrow}"
    if len(line) <= WIDTH:
        return line
    lines = [f"    {part}," for part in split(inside[1:-1])]
    return "\n".join([f"{name}(", *lines, f"){arrow}"])


def split(parameters: str) -> list[str]:
    """Split at the commas that are in no bracket."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "[({") - (letter in "])}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def written(annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    text = annotation.__forward_arg__ if hasattr(annotation, "__forward_arg__") else annotation
    return _Text(text if isinstance(text, str) else inspect.formatannotation(text))


def shown(value: Any) -> Any:
    """Return a default as it is written; there is nothing to show of an object without a public name."""
    if isinstance(value, str):
        return _Text(f'"{value}"')
    if isinstance(value, int | float | tuple | None) or value is inspect.Parameter.empty:
        return value
    name = getattr(value, "__name__", "_")
    return _Text("…" if name.startswith("_") else name)


def has_signature(thing: type) -> bool:
    """Return whether programs make such objects themselves."""
    return not issubclass(thing, BaseException) and thing.__name__ not in MADE_ELSEWHERE


def described(thing: Any) -> str:
    """Return a docstring as Markdown, with its examples as blocks."""
    text = inspect.getdoc(thing) if not inspect.isclass(thing) else thing.__doc__
    name = getattr(thing, "__name__", "")
    if not text or text.startswith(f"{name}("):
        return ""
    paragraphs = inspect.cleandoc(text).replace("\n<BLANKLINE>", "").split("\n\n")
    return "\n\n".join(f"```pycon\n{one}\n```" if one.startswith(">>> ") else one for one in paragraphs) + "\n"


def attributes(thing: type) -> dict[str, str]:
    """Return what the source says below the fields of a class."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    assert isinstance(node, ast.ClassDef)
    notes = {}
    for field, note in pairwise(node.body):
        text = note.value if isinstance(note, ast.Expr) else None
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Constant):
            notes[field.target.id] = " ".join(str(text.value).split())
    return {name: note for name, note in notes.items() if not name.startswith("_")}
