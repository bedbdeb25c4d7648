"""The OpenAPI document of the routes, with the stores of the topology as choices of a parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamtopo.drawing import FORMATS
from streamtopo.engine.plan import Plan
from streamtopo.hosting.queries.query import queryable_stores
from streamtopo.topology import Topology
from streamtopo.windows import FOREVER

WAIT = r"^(([0-9]{1,4}|[1-5][0-9]{4}|60000)ms|([1-5]?[0-9](\.[0-9]{1,3})?|60)s|1m)$"
"""Up to a minute; clients that want to wait longer can repeat the request."""
MAX_ROWS = 10_000
MAX_PARTITIONS = 1 << 31


def description(topology: Topology, plan: Plan, *, with_token: bool = False) -> dict[str, Any]:
    stores = queryable_stores(plan)
    partitions = max((plan.part(known.subtopology).tasks for known in stores.values()), default=1)
    store = _parameter("store", "path", {"type": "string", "enum": sorted(stores)}, "The store's name.")
    waiting = {"type": "string", "pattern": WAIT}
    wait = _parameter(
        "wait", "query", waiting, 'How long to wait while rows are restored or move, such as "5s"; at most 60s.'
    )
    partition = _parameter("partition", "query", _number(max(0, partitions - 1)), "Query only this partition.")
    key = _parameter("key", "path", _STRING, "The key: text unchanged, numbers as decimals, other types as JSON.")
    times = [
        _parameter("from", "query", _STRING, "First key; for windows and sessions, the first time in milliseconds."),
        _parameter("to", "query", _STRING, "Last key or time, inclusive."),
    ]
    as_of = _parameter(
        "as_of", "query", _number(FOREVER), "For versioned stores: the version at this time, in milliseconds."
    )
    order = [
        _parameter("reverse", "query", {"type": "boolean"}, "Start with the last key."),
        _parameter("limit", "query", _number(MAX_ROWS), "Maximum number of rows; default: 100."),
    ]
    prefix = _parameter("prefix", "query", _STRING, "Only keys that start with these bytes; instead of from and to.")
    format_ = _parameter("format", "query", {"type": "string", "enum": list(FORMATS)}, "Output format.")
    guarded = {
        "/stores": _operation("The stores of the topology, with their types.", [], 503),
        "/stores/{store}": _operation(
            "Rows in the order of their keys.", [store, *times, prefix, *order, wait, partition], 404, 422, 503
        ),
        "/stores/{store}/{key}": _operation(
            "The row of a key, or its windows or sessions.",
            [store, key, *times, *order, as_of, wait, partition],
            404,
            422,
            503,
        ),
        "/tasks": _operation("The tasks of this process, and their metrics.", [], 503),
        "/topology": _operation("The topology, drawn.", [format_], 422, 503),
        "/openapi.json": _operation("This document.", [], 503),
    }
    health = {
        "/health/live": _operation("Whether the engine has not failed.", [], 503),
        "/health/ready": _operation("Whether all tasks are running.", [], 503),
    }
    document = {
        "openapi": "3.1.0",
        "info": {"title": f"streamtopo: {topology.application_id}", "version": "1"},
        "paths": guarded | health,
    }
    return _guarded(document, guarded) if with_token else document


def _guarded(document: dict[str, Any], paths: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the document with the token that these paths require."""
    for path in paths.values():
        path["get"]["security"] = [{"token": []}]
        path["get"]["responses"]["401"] = {"description": _RESPONSES[401]}
    return document | {"components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}}


def _number(most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": most}


_STRING = {"type": "string"}
_RESPONSES = {
    200: "The answer.",
    401: "The token is missing or wrong.",
    404: "No such store, or no such key.",
    422: "A key or a parameter is malformed.",
    503: "Not available now: the rows are being restored, or another process has them and does not answer.",
}


def _parameter(name: str, place: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, "description": text}


def _operation(summary: str, parameters: list[dict[str, Any]], *errors: int) -> dict[str, Any]:
    responses = {str(code): {"description": _RESPONSES[code]} for code in (200, *errors)}
    return {"get": {"summary": summary, "parameters": parameters, "responses": responses}}
