"""The OpenAPI document of the routes; the stores of the topology are the choices of a parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamtopo.drawing import FORMATS
from streamtopo.engine.plan import Plan
from streamtopo.hosting.query import stores_of
from streamtopo.topology import Topology
from streamtopo.windows import FOREVER

WAIT = r"^(([0-9]{1,4}|[1-5][0-9]{4}|60000)ms|([1-5]?[0-9](\.[0-9]{1,3})?|60)s|1m)$"
"""Up to a minute: clients that wait longer ask again."""
MOST_ROWS = 10_000
MOST_PARTITIONS = 1 << 31


def description(topology: Topology, plan: Plan, *, with_token: bool = False) -> dict[str, Any]:
    stores = stores_of(plan)
    partitions = max((plan.part(known.subtopology).tasks for known in stores.values()), default=1)
    store = _parameter("store", "path", {"type": "string", "enum": sorted(stores)}, "The store's name.")
    waiting = {"type": "string", "pattern": WAIT}
    wait = _parameter(
        "wait", "query", waiting, 'How long to wait for a restore or a hand-over, such as "5s"; at most 60s.'
    )
    partition = _parameter("partition", "query", _number(max(0, partitions - 1)), "Ask this one only.")
    key = _parameter("key", "path", _STRING, "Text as it is, numbers as decimals, else the key's JSON.")
    times = [
        _parameter("from", "query", _STRING, "The first key; of windows and sessions the first time, in milliseconds."),
        _parameter("to", "query", _STRING, "The last one, included."),
    ]
    as_of = _parameter(
        "as_of", "query", _number(FOREVER), "Of a store with versions: the one of this time, in milliseconds."
    )
    order = [
        _parameter("reverse", "query", {"type": "boolean"}, "Begin with the last key."),
        _parameter("limit", "query", _number(MOST_ROWS), "How many rows at most; 100 if it is not given."),
    ]
    prefix = _parameter("prefix", "query", _STRING, "The bytes that keys begin with, instead of from and to.")
    form = _parameter("format", "query", {"type": "string", "enum": list(FORMATS)}, "How to draw it.")
    guarded = {
        "/stores": _get("The stores of the topology, with their types.", [], 503),
        "/stores/{store}": _get(
            "Rows in the order of their keys.", [store, *times, prefix, *order, wait, partition], 404, 422, 503
        ),
        "/stores/{store}/{key}": _get(
            "The row of a key, or its windows or sessions.",
            [store, key, *times, *order, as_of, wait, partition],
            404,
            422,
            503,
        ),
        "/tasks": _get("The tasks of this process, and what they have done.", [], 503),
        "/topology": _get("The topology, drawn.", [form], 422, 503),
        "/openapi.json": _get("This document.", [], 503),
    }
    health = {
        "/health/live": _get("Whether the engine is there.", [], 503),
        "/health/ready": _get("Whether all its tasks are at work.", [], 503),
    }
    whole = {
        "openapi": "3.1.0",
        "info": {"title": f"streamtopo: {topology.application_id}", "version": "1"},
        "paths": guarded | health,
    }
    return _guarded(whole, guarded) if with_token else whole


def _guarded(document: dict[str, Any], paths: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """With the token that these paths need."""
    for path in paths.values():
        path["get"]["security"] = [{"token": []}]
        path["get"]["responses"]["401"] = {"description": _SAID[401]}
    return document | {"components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}}


def _number(most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": most}


_STRING = {"type": "string"}
_SAID = {
    200: "The answer.",
    401: "The token is missing, or wrong.",
    404: "No such store, or no such key.",
    422: "A key, or a parameter, is malformed.",
    503: "Not now: the rows are being restored, or with a process that does not answer.",
}


def _parameter(name: str, place: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, "description": text}


def _get(summary: str, parameters: list[dict[str, Any]], *errors: int) -> dict[str, Any]:
    responses = {str(code): {"description": _SAID[code]} for code in (200, *errors)}
    return {"get": {"summary": summary, "parameters": parameters, "responses": responses}}
