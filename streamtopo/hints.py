"""What to write instead of a method that does not exist: names of Kafka Streams, Faust, Quix Streams and pandas, and
methods of another class of ours."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

Hinted = TypeVar("Hinted", bound=type[Any])

_classes: dict[str, type[Any]] = {}

RENAMED = {
    "agg": "aggregate",
    "apply": "map_values",
    "assign": "map_values",
    "branch": "split",
    "concat": "merge",
    "distinct": "deduplicate",
    "drop_duplicates": "deduplicate",
    "dropna": "filter",
    "explode": "flat_map_values",
    "filternot": "filter_not",
    "flatmap": "flat_map",
    "fold": "aggregate",
    "foreach": "for_each",
    "full_join": "outer_join",
    "groupby": "group_by",
    "head": "print",
    "inner_join": "join",
    "inspect": "peek",
    "key_by": "select_key",
    "pipe_input": "send",
    "produce": "send",
    "consume": "read",
    "query": "filter",
    "select": "map_values",
    "show": "print",
    "sink": "to",
    "size": "count",
    "tap": "peek",
    "through": "repartition",
    "to_topic": "to",
    "transform": "process",
    "transform_values": "process_values",
    "topic": "stream",
    "unique": "deduplicate",
    "union": "merge",
    "update": "peek",
    "where": "filter",
    "window": "windowed_by",
    "window_by": "windowed_by",
    "with_column": "map_values",
}
"""For each class that has the new name and not the old one."""

_AGGREGATORS = ("first", "last", "max", "mean", "min", "sum", "top_k")
_WINDOWS = {"tumbling_window": "tumbling", "hopping_window": "hopping", "sliding_window": "sliding"}
_WINDOWS |= {"session_window": "session", "rolling": "sliding", "resample": "tumbling", "tumbling": "tumbling"}
_ARGUMENTS = {"tumbling": '"1m"', "hopping": '"1m", every="10s"', "sliding": '"1m"', "session": '"30s"'}
_ROWS = (
    'the rows of a table are read by queries: streamtopo query APP STORE KEY, app.query("store").get(key), or '
    'driver.store("store").get(key) in a test'
)
_RUN = "run it with Worker(topology).run(), or with streamtopo worker FILE"

ADVICE = {
    "KStream": {
        "get": "a stream has no rows, only records; a table has them: .to_table()",
        "suppress": 'only tables have it: .group_by_key().count().suppress(until_time_limit("5s"))',
        "to_stream": "it is a stream already",
        "value_counts": "group it first: .group_by(lambda key, value: value, key=…).count()",
    },
    "KTable": {
        "aggregate": "group it first: .group_by(lambda key, value: (key, value)).aggregate(…)",
        "all": _ROWS,
        "count": "group it first: .group_by(lambda key, value: (key, value)).count()",
        "get": _ROWS,
        "group_by_key": "group it by a key: .group_by(lambda key, value: (key, value))",
        "items": _ROWS,
        "reduce": "group it first: .group_by(lambda key, value: (key, value)).reduce(…, …)",
        "to_table": "it is a table already",
        "windowed_by": "only streams have windows: .group_by_key().windowed_by(…) before the table is made",
    },
    "GlobalKTable": {"to_stream": "only joins read it; read the topic with builder.table(…) for other operators"},
    "_Windowed": {
        "current": "the default: each update is sent",
        "final": 'give windowed_by(…, emit="on_close")',
        "suppress": 'use the result: .count().suppress(until_window_closes()); or windowed_by(…, emit="on_close")',
    },
    "StreamsBuilder": {
        "dataframe": "read a topic with .stream(…)",
        "describe": "call build() first: .build().describe()",
        "run": _RUN.replace("topology", "builder"),
        "start": _RUN.replace("topology", "builder"),
    },
    "Topology": {"run": _RUN, "start": _RUN},
    "WindowStore": {
        "delete": "put None: .put(key, None, window_start)",
        "get": "give the start of the window: .fetch(key, time); or for several windows .fetch_range(key, start, stop)",
        "range": ".fetch_range(key, start, stop) gives windows of a key, .fetch_all(start, stop) those of all keys",
    },
    "SessionStore": {
        "delete": "use .remove(key, start, end)",
        "get": "a key has several sessions: .fetch(key) gives all, .fetch_session(key, start, end) one of them",
        "range": ".find_sessions(key, earliest_end, latest_start) gives sessions of a key, .all() those of all keys",
    },
    "KeyValueStore": {"fetch": "use .get(key)", "fetch_all": "use .all(), or .range(start, stop)"},
    "VersionedStore": {"fetch": "use .get(key), or .get_as_of(key, timestamp)"},
}
"""By class and name. What is said of a class is true for its subclasses."""


def hinted(kind: Hinted) -> Hinted:
    """Let AttributeErrors of the class say what to write instead. Type checkers still see what does not exist."""
    _classes[kind.__name__] = kind
    kind.__getattr__ = _unknown
    return kind


def _unknown(self: object, name: str) -> NoReturn:
    kind = type(self)
    advice = None if name.startswith("_") else hint(kind, name)
    raise AttributeError(f'{kind.__name__} has no "{name}"' + (f"; {advice}" if advice else ""), name=name)


def hint(kind: type[Any], name: str) -> str | None:
    name = _in_snake_case(old := name)
    for one in kind.__mro__:
        if advice := ADVICE.get(one.__name__, {}).get(name):
            return advice
    if name != old and hasattr(kind, name):
        return f"in Python it is called {name}"
    known = RENAMED.get(name, name)
    if hasattr(kind, known):
        return f"it is called {known}"
    return _windowed_or_aggregated(kind, name) or _elsewhere(kind, known) or _close(kind, name)


def _windowed_or_aggregated(kind: type[Any], name: str) -> str | None:
    group = ".group_by_key()" if kind.__name__ == "KStream" else ""
    if name in _WINDOWS and (group or hasattr(kind, "windowed_by")):
        window = _WINDOWS[name]
        return f"use {group}.windowed_by(Windows.{window}({_ARGUMENTS[window]}))"
    if name in _AGGREGATORS and (group or kind.__name__ in _GROUPED):
        return f"use {group}.aggregate({name}(…)), with {name} from streamtopo.aggregators"
    return None


_GROUPED = ("KGroupedStream", "TimeWindowedKStream", "SessionWindowedKStream")


def _elsewhere(kind: type[Any], name: str) -> str | None:
    """Where in a chain of methods the name belongs."""
    if kind.__name__ == "KStream":
        return f"group it first: .group_by_key().{name}(…)" if hasattr(_classes["KGroupedStream"], name) else None
    if not hasattr(_classes.get("KStream"), name):
        return None
    if kind.__name__ == "KTable":
        return f"use .to_stream().{name}(…)"
    if kind.__name__ in _GROUPED:
        return f"call {name} before the records are grouped, or on the result: .count().to_stream().{name}(…)"
    return None


def _close(kind: type[Any], name: str) -> str | None:
    close = get_close_matches(name, [one for one in dir(kind) if not one.startswith("_")], 1)
    return f'did you mean "{close[0]}"?' if close else None


def _in_snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
