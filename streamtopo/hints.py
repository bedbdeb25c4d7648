"""What to write instead of a method that does not exist: names of Kafka Streams, Faust, Quix Streams and pandas, and
methods of another class of ours."""

from __future__ import annotations

import re
import sys
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
_KINDS = 'write Windows.tumbling("1m"), .hopping("1m", every="10s"), .sliding("10s"), .session("30s") or .unlimited()'

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
    "Host": dict.fromkeys(
        ("close", "consume", "metrics", "produce", "query", "ready", "run", "start", "state", "store"),
        "open it first, and use what it gives: with host(topology) as app: app.ready()",
    ),
    "KeyValueStore": {"fetch": "use .get(key)", "fetch_all": "use .all(), or .range(start, stop)"},
    "Windows": {
        **dict.fromkeys(("of", "of_size", "of_size_with_no_grace", "of_size_and_grace", "time", "with_gap"), _KINDS),
        "advance_by": 'give it at once: Windows.hopping("1m", every="10s")',
        "with_grace": 'give it at once: Windows.tumbling("1m", grace="10s")',
    },
    "VersionedStore": {"fetch": "use .get(key), or .get_as_of(key, timestamp)"},
}
"""By class and name. What is said of a class is true for its subclasses."""

_JOINED = 'options of the join: .join(other, joiner, within="10s") or .join(table, joiner, name="…")'
_DRIVER = "write from streamtopo.testing import Driver"
_DRIVEN = "a Driver sends and reads: driver.send(topic, value, key=…), driver.read(topic)"
_OPTION = "write it as an option of the operator"
_STORES = "a query finds rows: app.query(store), and in a test driver.store(store)"
_RUNS = "a topology is run by Worker(topology).run(), inside a program by host(topology), or by streamtopo worker FILE"

NAMES = {
    "App": 'write StreamsBuilder("application-id")',
    "Application": 'write StreamsBuilder("application-id")',
    "Branched": f"{_OPTION}: .split({{name: predicate}}) returns a dict of streams",
    "Cluster": "write from streamtopo.testing import Cluster",
    "Consumed": f'{_OPTION}: builder.stream("topic", key=str, value=dict)',
    "Dataflow": 'write StreamsBuilder("application-id")',
    "Driver": _DRIVER,
    "Grouped": f"{_OPTION}: .group_by(function, key=str, name=…)",
    "JoinWindows": 'give the join within="10s", or before= and after=, and grace=',
    "Joined": _JOINED,
    "KafkaStreams": _RUNS,
    "KeyValue": "write a pair: (key, value)",
    "Materialized": f'{_OPTION}: count(name="counts"), aggregate(…, value=dict, name="rows")',
    "Named": f"{_OPTION}: name=…",
    "Printed": "write .print()",
    "Produced": f'{_OPTION}: .to("topic", key=str, value=dict, partitioner=…)',
    "Punctuator": "a function of the time: context.schedule(interval, clock, function)",
    "ReadOnlyKeyValueStore": _STORES,
    "ReadOnlySessionStore": _STORES,
    "ReadOnlyWindowStore": _STORES,
    "Repartitioned": f"{_OPTION}: .repartition(partitions=4, name=…)",
    "Serdes": "types are serdes: key=str, value=dict, int, float, bytes, a dataclass; or Serde(encode, decode)",
    "SessionWindows": 'write Windows.session("30s")',
    "SlidingWindows": 'write Windows.sliding("10s")',
    "StepError": "write from streamtopo.errors import StepError",
    "Stores": "write from streamtopo import key_value_store (or window_store, session_store, versioned_store)",
    "StreamJoined": _JOINED,
    "StreamPartitioner": f"{_OPTION}: .to(topic, partitioner=function)",
    "StreamsConfig": "options are keywords: Worker(topology, log=…, commit_interval=…)",
    "Table": 'write builder.table("topic", key=str, value=dict)',
    "TableJoined": _JOINED,
    "TestInputTopic": _DRIVEN,
    "TestOutputTopic": _DRIVEN,
    "TimeWindows": 'write Windows.tumbling("1m"), or Windows.hopping("1m", every="10s")',
    "TimestampExtractor": f'{_OPTION}: builder.stream("topic", timestamp="field"), or a function of (key, value)',
    "TopologyError": "write from streamtopo.errors import TopologyError",
    "TopologyTestDriver": _DRIVER,
    "Transformer": "write a Processor, for .process(…)",
    "TumblingWindow": 'write Windows.tumbling("1m")',
    "UnlimitedWindows": "write Windows.unlimited()",
    "ValueTransformerWithKey": "write a ValueTransformer",
} | {name: f"write from streamtopo.aggregators import {name}" for name in (*_AGGREGATORS, "collect")}
"""Names of Kafka Streams, Faust and others, and of our other modules, that people import from `streamtopo`."""


def no_such_name(module: str, name: str) -> Exception:
    """The error of a module that does not have the name.

    Python hides an AttributeError when it runs `from module import name`, so it is an ImportError there, if there is
    advice: after an AttributeError, Python looks for a module of that name.
    """
    advice = NAMES.get(name)
    if advice is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    imported = sys._getframe(2).f_code.co_name == "_handle_fromlist"
    message = f'{module} has no "{name}"; {advice}'
    return ImportError(message, name=module) if imported else AttributeError(message, name=name)


def hinted(kind: Hinted) -> Hinted:
    """Let AttributeErrors of the class say what to write instead. Type checkers still see what does not exist."""
    _classes[kind.__name__] = kind
    kind.__getattr__ = _unknown
    return kind


def hinted_class(meta: Hinted) -> Hinted:
    """The same for classes: let AttributeErrors of the classes of this metaclass say what to write instead."""
    meta.__getattr__ = _unknown_of_class
    return meta


def _unknown_of_class(kind: type[Any], name: str) -> NoReturn:
    advice = None if name.startswith("_") else _advised(kind, _in_snake_case(name)) or _close(kind, name)
    raise AttributeError(f'{kind.__name__} has no "{name}"' + (f"; {advice}" if advice else ""), name=name)


def _unknown(self: object, name: str) -> NoReturn:
    kind = type(self)
    advice = None if name.startswith("_") else hint(kind, name)
    raise AttributeError(f'{kind.__name__} has no "{name}"' + (f"; {advice}" if advice else ""), name=name)


def hint(kind: type[Any], name: str) -> str | None:
    name = _in_snake_case(old := name)
    if advice := _advised(kind, name):
        return advice
    if name != old and hasattr(kind, name):
        return f"in Python it is called {name}"
    known = RENAMED.get(name, name)
    if hasattr(kind, known):
        return f"it is called {known}"
    return _windowed_or_aggregated(kind, name) or _elsewhere(kind, known) or _close(kind, name)


def _advised(kind: type[Any], name: str) -> str | None:
    return next(filter(None, (ADVICE.get(one.__name__, {}).get(name) for one in kind.__mro__)), None)


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
