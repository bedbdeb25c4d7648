"""What a task remembers, as the text next to each of its positions in the log."""

from __future__ import annotations

import zlib
from base64 import b85decode, b85encode
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from streamtopo.engine.task.origins import Origins, WaitedFor, packed_origins, waited_for

_MOST = 4_000
"""Characters: what Kafka accepts, unless its brokers are told otherwise, is a few more."""
_FOR_ORIGINS = 2_500
"""As many of them are free for what is known of origins."""
_FRAME = len(',"origins":')
_PACKED = "packed"


def written(memory: Mapping[str, Any], origins: Origins | None) -> str:
    """The names of clocks and stores may be long; they are compressed where the text would become too long."""
    known = dict(memory)
    text = orjson.dumps(known)
    if len(text) > _MOST - (0 if origins is None else _FOR_ORIGINS):
        known = {_PACKED: b85encode(zlib.compress(text)).decode()}
    if origins is None:
        known["origins"] = None  # there are none; if there are some later, they are waited for
    elif (packed := packed_origins(origins, _MOST - len(orjson.dumps(known)) - _FRAME)) is not None:
        known["origins"] = packed
    return orjson.dumps(known).decode()


def read(metadata: str) -> dict[str, Any]:
    """Empty if the position remembers nothing."""
    known: dict[str, Any] = orjson.loads(metadata) if metadata else {}
    if _PACKED in known:
        known |= orjson.loads(zlib.decompress(b85decode(known.pop(_PACKED))))
    return known


def clocks_in(metadata: str) -> dict[str, int]:
    """The times of operators in the metadata of a position."""
    clocks: dict[str, int] = read(metadata).get("clocks", {})
    return clocks


class TimeInPosition(NamedTuple):
    """What a position in a repartition topic says about the time of the task that reads it."""

    time: int
    """Its stream time."""
    seen: int
    """The latest time of a row: past `time` while that is held back."""
    waited_for: WaitedFor

    @property
    def held_back(self) -> bool:
        """Whether time waits for a task that writes this topic. It may wait for one that writes another."""
        return self.seen > self.time and (self.waited_for.time is None or self.waited_for.time <= self.time)


def time_in(metadata: str) -> TimeInPosition | None:
    """None if the position says nothing about it, or was committed by another program."""
    try:
        known = read(metadata)
        time = known["time"]
        return TimeInPosition(time, known.get("seen", time), waited_for(known["origins"], time))
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error):
        return None
