"""The questions and answers between processes as JSON, and how a process answers from its own rows."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from itertools import islice
from typing import Any

import orjson

from streamtopo.engine.plan import Plan
from streamtopo.engine.task.options import TaskId
from streamtopo.errors import StreamtopoError
from streamtopo.hosting.answers import NotOwner, QueryError, Restoring
from streamtopo.hosting.queries.local_rows import LocalRows
from streamtopo.hosting.queries.query import find_store
from streamtopo.hosting.queries.scanning import ScanBounds, StorePart
from streamtopo.stores.rows.extent import Extent

PATH = "/rows"
PAGE = 1000
"""Maximum number of rows in an answer."""


def answer(local: LocalRows, plan: Plan, question: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to another process, from the rows of this process only."""
    store = question["store"]
    task = TaskId(find_store(plan, store).subtopology, int(question["partition"]))
    part = StorePart(store, task, only_here=bool(question.get("alone")))
    try:
        if "key" in question:
            row = local.get(part, b64decode(question["key"]))
            return {"row": encode_or_none(row)}
        if "time" in question:
            return {"time": local.time(part)}
        rows = local.scan(part, bounds_from_json(question["span"]))
        return {"rows": [(encode(key), encode(row)) for key, row in islice(rows, PAGE)]}
    except NotOwner:
        return {"refused": "not owner"}
    except Restoring as restoring:
        return {"refused": "restoring", "done": restoring.done, "total": restoring.total}


def answer_bytes(local: LocalRows, plan: Callable[[], Plan], question: bytes) -> bytes:
    """Return the answer as bytes, to processes on the same machine."""
    try:
        return orjson.dumps(answer(local, plan(), orjson.loads(question)))
    except (QueryError, ValueError, KeyError, TypeError) as error:
        return orjson.dumps({"error": f"{type(error).__name__}: {error}"})
    except StreamtopoError:  # it is starting, or a store could not be read; over HTTP, this is a status of 500 or more
        return orjson.dumps({"refused": "not now"})


def encode(data: bytes) -> str:
    return b64encode(data).decode()


def encode_or_none(data: bytes | None) -> str | None:
    return None if data is None else encode(data)


def decode(text: str) -> bytes:
    return b64decode(text, validate=True)


def decode_or_none(text: str | None) -> bytes | None:
    return None if text is None else decode(text)


def bounds_to_json(bounds: ScanBounds) -> list[Any]:
    extent = bounds.extent and (
        encode_or_none(bounds.extent.first),
        encode_or_none(bounds.extent.last),
        *bounds.extent[2:],
    )
    return [encode(bounds.start), encode_or_none(bounds.stop), bounds.reverse, extent]


def bounds_from_json(encoded: list[Any]) -> ScanBounds:
    start, stop, reverse, extent = encoded
    if extent is not None:
        first, last, *times = extent
        extent = Extent(decode_or_none(first), decode_or_none(last), *map(int, times))
    return ScanBounds(b64decode(start), decode_or_none(stop), bool(reverse), extent)
