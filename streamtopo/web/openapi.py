"""The OpenAPI document of the routes; the stores of the topology are the choices of a parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamtopo.drawing import FORMATS
from streamtopo.hosting.query import Known
from streamtopo.topology import Topology


def description(topology: Topology, stores: Mapping[str, Known]) -> dict[str, Any]:
    store = _parameter("store", "path", {"type": "string", "enum": sorted(stores)}, "The store's name.")
    wait = _parameter("wait", "query", _STRING, 'How long to wait for a restore or a hand-over, such as "5s".')
    partition = _parameter("partition", "query", _NUMBER, "Ask this one only.")
    key = _parameter("key", "path", _STRING, "Text as it is, numbers as decimals, else the key's JSON.")
    times = [
        _parameter("from", "query", _STRING, "The first key; of windows and sessions the first time, in milliseconds."),
        _parameter("to", "query", _STRING, "The last one, included."),
    ]
    as_of = _parameter("as_of", "query", _NUMBER, "Of a store with versions: the one of this time, in milliseconds.")
    bounds = [
        *times,
        _parameter("prefix", "query", _STRING, "What the bytes of the keys begin with, instead of from and to."),
        _parameter("reverse", "query", {"type": "boolean"}, "Begin with the last key."),
        _parameter("limit", "query", _NUMBER, "How many rows at most; 100 if it is not given."),
    ]
    form = _parameter("format", "query", {"type": "string", "enum": list(FORMATS)}, "How to draw it.")
    return {
        "openapi": "3.1.0",
        "info": {"title": f"streamtopo: {topology.application_id}", "version": "1"},
        "paths": {
            "/stores": _get("The stores of the topology, with their types.", []),
            "/stores/{store}": _get(
                "Rows in the order of their keys.", [store, *bounds, wait, partition], 404, 422, 503
            ),
            "/stores/{store}/{key}": _get(
                "The row of a key, or its windows or sessions.",
                [store, key, *times, as_of, wait, partition],
                404,
                422,
                503,
            ),
            "/tasks": _get("The tasks of this process, and what they have done.", []),
            "/topology": _get("The topology, drawn.", [form], 422),
            "/health/live": _get("Whether the engine is there.", [], 503),
            "/health/ready": _get("Whether all its tasks are at work.", [], 503),
        },
    }


_STRING = {"type": "string"}
_NUMBER = {"type": "integer", "minimum": 0}
_SAID = {
    200: "The answer.",
    404: "No such store, or no such key.",
    422: "A key, or a parameter, is malformed.",
    503: "Not now: the rows are being restored, or with a process that does not answer.",
}


def _parameter(name: str, place: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, "description": text}


def _get(summary: str, parameters: list[dict[str, Any]], *errors: int) -> dict[str, Any]:
    responses = {str(code): {"description": _SAID[code]} for code in (200, *errors)}
    return {"get": {"summary": summary, "parameters": parameters, "responses": responses}}
