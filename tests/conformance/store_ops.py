"""Store operations of the cases on the Driver's stores; results have the form used in the cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo.stores import Kind
from streamtopo.stores.rows.versions import Version
from streamtopo.testing import Driver
from streamtopo.windows import Windowed

Entry = dict[str, Any]
Op = Callable[[Any, Entry], Any]


def store_op(driver: Driver, entry: Entry) -> Any:
    spec, store = driver.topology.stores[entry["store"]], driver.store(entry["store"])
    if spec.kind is Kind.SESSION:
        return _SESSION[entry["store_op"]](store, entry)
    if spec.kind is Kind.VERSIONED:
        return _VERSIONED[entry["store_op"]](store, entry)
    if spec.kind is Kind.WINDOW:
        return _WINDOW[entry["store_op"]](store, entry)
    if spec.kind is Kind.TIMESTAMPED_WINDOW:
        return _timed(store, entry, _WINDOW[entry["store_op"]](store, entry))
    return _key_value(store, entry, timestamped=spec.kind is Kind.TIMESTAMPED)


# -- key-value stores: a table's rows have timestamps


def _key_value(store: Any, entry: Entry, *, timestamped: bool) -> Any:
    def value_of(key: Any) -> Any:
        if not timestamped:
            return store.get(key)
        row = store.get_with_timestamp(key)
        return row and {"value": row.value, "ts": row.timestamp}

    match entry["store_op"]:
        case "get":
            return value_of(entry["key"])
        case "put":
            return store.put(entry["key"], entry["value"])
        case "put_all":
            for key, value in entry["entries"]:
                store.put(key, value)
            return None
        case "put_if_absent":
            return store.put_if_absent(entry["key"], entry["value"])
        case "delete":
            return store.delete(entry["key"])
        case "approximate_num_entries":
            return store.approximate_num_entries()
        case "range" | "reverse_range" as scan:
            return [[key, value_of(key)] for key, _ in getattr(store, scan)(entry["key_from"], entry["key_to"])]
        case scan:
            return [[key, value_of(key)] for key, _ in getattr(store, scan)()]


# -- windows and sessions


def _pairs(rows: Any) -> list[Any]:
    return [[plain(key), value] for key, value in rows]


def plain(key: Any) -> Any:
    return key._asdict() if isinstance(key, Windowed) else key


def _fetching(method: str, *fields: str) -> Op:
    return lambda store, entry: _pairs(getattr(store, method)(*[entry.get(field) for field in fields]))


_WINDOW: dict[str, Op] = {
    "put": lambda store, entry: store.put(entry["key"], entry["value"], entry["ts"]),
    "fetch": lambda store, entry: store.fetch(entry["key"], entry["time"]),
    **{name: _fetching(name, "key", "from", "to") for name in ("fetch_range", "backward_fetch_range")},
    **{
        name: _fetching(name, "key_from", "key_to", "from", "to")
        for name in ("fetch_keys_range", "backward_fetch_keys_range")
    },
    **{name: _fetching(name, "from", "to") for name in ("fetch_all", "backward_fetch_all")},
    **{name: _fetching(name) for name in ("all", "backward_all")},
}
_SESSION: dict[str, Op] = {
    "put": lambda store, entry: store.put(entry["key"], entry["start"], entry["end"], entry["value"]),
    "remove": lambda store, entry: store.remove(entry["key"], entry["start"], entry["end"]),
    "fetch_session": lambda store, entry: store.fetch_session(entry["key"], entry["start"], entry["end"]),
    **{name: _fetching(name, "key") for name in ("fetch", "backward_fetch")},
    **{
        name: _fetching(name, "key", "earliest_end", "latest_start")
        for name in ("find_sessions", "backward_find_sessions")
    },
}


def _timed(store: Any, entry: Entry, found: Any) -> Any:
    """Add timestamps to the rows of windowed tables, as to those of other tables."""

    def row(key: Any, start: int) -> Any:
        kept = store.fetch_with_timestamp(key, start)
        return kept and {"value": kept.value, "ts": kept.timestamp}

    if not isinstance(found, list):
        return row(entry["key"], entry["time"]) if entry["store_op"] == "fetch" else found
    if "key" in entry:
        return [[start, row(entry["key"], start)] for start, _ in found]
    return [[window, row(window["key"], window["start"])] for window, _ in found]


# -- versions


def _version(version: Version | None) -> dict[str, Any] | None:
    return version and {"value": version.value, "ts": version.timestamp, "valid_to": version.valid_to}


def _without_end(version: dict[str, Any] | None) -> dict[str, Any] | None:
    """Leave out the end of a deleted version: Kafka Streams does not give it, streamtopo does."""
    return version and version | {"valid_to": None}


def _versions(store: Any, entry: Entry) -> list[dict[str, Any] | None]:
    descending = entry.get("order") != "ascending"  # in Kafka Streams, "any" order is the latest first
    return [_version(one) for one in store.range(entry["key"], entry["from"], entry["to"], descending=descending)]


_VERSIONED: dict[str, Op] = {
    "put": lambda store, entry: store.put(entry["key"], entry["value"], entry["ts"]),
    "delete": lambda store, entry: _without_end(_version(store.delete(entry["key"], entry["ts"]))),
    "get": lambda store, entry: _version(store.get(entry["key"])),
    "get_as_of": lambda store, entry: _version(store.get_as_of(entry["key"], entry["as_of"])),
    "get_range": _versions,
}
