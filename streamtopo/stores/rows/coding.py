"""Encodes and decodes the rows of a store: keys as places in its layout, values with their times."""

from __future__ import annotations

import struct
from collections.abc import Collection, Hashable, Sequence
from operator import itemgetter
from typing import Any

from streamtopo.records import Columns, Headers, private
from streamtopo.serdes import encoded
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.rows.layout import SEGMENT_BYTES, placed, time_in

Row = tuple[Any, int]
"""A value and its timestamp."""

_TIME = struct.Struct(">q")
_START, _END = itemgetter(1), itemgetter(2)


class Coding:
    """The index of a row is its key, or the key's bytes if equal keys may differ as bytes."""

    def __init__(self, spec: StoreSpec) -> None:
        self._spec = spec
        self.segment_bytes = SEGMENT_BYTES if spec.segment else 0
        """How many bytes come before the key in a place."""

    def index(self, keys: list[Any]) -> list[Hashable]:
        return keys if self._spec.key.exact else encoded(self._spec.key, keys, "key")  # type: ignore[return-value]

    def index_of(self, keys: Sequence[bytes | None]) -> list[Any]:
        """The index of keys that are given as bytes."""
        return self._spec.key.decode_column([*keys]) if self._spec.key.exact else [*keys]

    def keys(self, index: list[Any]) -> list[bytes]:
        return encoded(self._spec.key, index, "key") if self._spec.key.exact else index  # type: ignore[return-value]

    def times(self, index: Collection[Any]) -> list[int]:
        """The time in each key, which decides its segment: a window's start, a session's end."""
        if not self._spec.key.exact:
            return [time_in(self._spec, key) for key in index]
        return list(map(_END if self._spec.kind is Kind.SESSION else _START, index))

    def places(self, index: list[Any]) -> list[bytes]:
        return placed(self._spec, self.keys(index))

    def row(self, data: bytes) -> Row:
        if not self._spec.timestamped:
            return self._spec.value.decode(data), -1
        return self._spec.value.decode(data[8:]), _TIME.unpack_from(data)[0]

    def rows(self, index: list[Any], found: list[bytes | None]) -> dict[Any, Row | None]:
        """The row for each index, from the bytes that were found (None: no row)."""
        rows: dict[Any, Row | None] = dict.fromkeys(index)
        data = [row for row in found if row is not None]
        timestamped = self._spec.timestamped
        times = [time for (time,) in map(_TIME.unpack_from, data)] if timestamped else [-1] * len(data)
        values = self._spec.value.decode_column([row[8:] for row in data] if timestamped else data)  # type: ignore[arg-type]
        there = [key for key, row in zip(index, found, strict=True) if row is not None]
        rows.update(zip(there, zip(values, times, strict=True), strict=True))
        return rows

    def copied(self, row: Row | None) -> Row | None:
        """A copy for callers: changing it does not change the kept row."""
        return (private(row[0]), row[1]) if row is not None and self._spec.value.mutable else row

    def changelog(
        self, index: Sequence[Any], values: list[Any], timestamps: list[int], headers: list[Headers] | None
    ) -> Columns:
        keys: list[bytes | None] = [*self.keys(list(index))]
        if headers is not None and not any(headers):
            headers = None
        return Columns(keys, encoded(self._spec.value, values, "value"), timestamps, headers)
