"""Columns and serdes decide the same: over random types, texts, and damage to them."""

from __future__ import annotations

from decimal import Context, setcontext
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from streamtopo.errors import TopologyError
from streamtopo.serdes import Serde, serde_of
from streamtopo.spark.decoding.decoder import Decoder
from tests.long import LONG
from tests.spark.damaged import damaged, random_json, random_kind
from tests.spark.held import CORRUPT, expected, shown

SEEDS, TEXTS = (500, 400) if LONG else (60, 60)


def decoded(serde: Serde, kind: Any, column: list[bytes | None]) -> list[Any]:
    array, wrong = Decoder(serde).decode(pa.array(column, pa.binary()))
    array.validate(full=True)
    micros = zip(array.to_pylist(), wrong.to_pylist(), column, strict=True)
    return [_one(kind, found, bad, data) for found, bad, data in micros]


def _one(kind: Any, found: Any, bad: bytes | None, data: bytes | None) -> Any:
    if bad is None:
        return shown(kind, found)
    assert (found, bad) == (None, data)
    return CORRUPT


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_texts_of_random_types(seed: int) -> None:
    setcontext(Context(prec=60))
    random = Random(seed)
    while True:
        kind = random_kind(random)
        try:
            serde = serde_of(kind)
            Decoder(serde)
            break
        except TopologyError:  # such as two dataclasses in a union
            continue
    column: list[bytes | None] = [damaged(random, random_json(random, kind).encode()) for _ in range(TEXTS)]
    column += [None, b"null", *(random_json(random, kind).encode() for _ in range(80))]
    for found, wanted, data in zip(
        decoded(serde, kind, column), (expected(serde, kind, one) for one in column), column, strict=True
    ):
        assert found == wanted, (kind, data)
