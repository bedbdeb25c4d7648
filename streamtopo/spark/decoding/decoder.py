"""Decodes a column of bytes: all values together where they are plain, and otherwise by the serde, one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from streamtopo.errors import faults
from streamtopo.serdes import Serde, is_checked_json
from streamtopo.serdes.exact_json import loads_column
from streamtopo.spark.decoding.scalars import Fill
from streamtopo.spark.decoding.shapes import shape_of_serde, spread

_PART = 64
"""So many values are decoded together where some do not fit."""


class Decoder:
    def __init__(self, serde: Serde) -> None:
        self._serde = serde
        self.shape = shape_of_serde(serde)
        self._together: Fill = self._from_json if is_checked_json(serde) else self._from_values

    def decode(self, column: Any) -> tuple[Any, Any]:
        """The column of its type, with null for what does not fit; and the bytes of what does not, with null elsewhere.

        Bytes fit if the serde reads them, and if a column of Spark can hold the value exactly.
        """
        data = column.to_pylist()
        try:
            return self._together(data), pa.nulls(len(data), pa.binary())
        except faults():
            arrays: list[Any] = []
            corrupt: list[bytes | None] = []
            for first in range(0, len(data), _PART):
                self._part(data[first : first + _PART], arrays, corrupt)
            return pa.concat_arrays(arrays), pa.array(corrupt, pa.binary())

    def _part(self, data: list[bytes | None], arrays: list[Any], corrupt: list[bytes | None]) -> None:
        try:
            array, wrong = self._together(data), set[int]()
        except faults():
            array, wrong = self._one_by_one(data)
        arrays.append(array)
        corrupt += [one if place in wrong else None for place, one in enumerate(data)] if wrong else [None] * len(data)

    def _one_by_one(self, data: list[bytes | None]) -> tuple[Any, set[int]]:
        values, errors = self._serde.decode_column_partly(data)
        wrong = set(errors)
        try:
            return self.shape.of_values(values), wrong
        except faults():
            for place, value in enumerate(values):
                try:
                    self.shape.of_values([value])
                except faults():
                    wrong.add(place)
            held = [None if place in wrong else value for place, value in enumerate(values)]
            return self.shape.of_values(held), wrong

    def _from_values(self, data: list[bytes | None]) -> Any:
        return self.shape.of_values(self._serde.decode_column(data))

    def _from_json(self, data: list[bytes | None]) -> Any:
        there = [one for one in data if one is not None]
        parsed = loads_column(there)
        if len(there) < len(data):
            rest = iter(parsed)
            parsed = [None if one is None else next(rest) for one in data]
        return spread(self.shape.of_json, parsed, None)
