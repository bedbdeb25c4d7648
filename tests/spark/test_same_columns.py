"""What Spark shows is what the serdes read: through the data source, `mapInArrow`, and Spark's own functions."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from datetime import date, time
from decimal import Context, Decimal, setcontext
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import VariantVal

from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns
from streamtopo.serdes import serde_of
from streamtopo.spark import read_topic
from streamtopo.spark.decoding.decoding import decoding_of
from streamtopo.spark.topics.typed import types_of
from tests.logs.records import T0
from tests.spark.damaged import Colour, Point, damaged, random_json
from tests.spark.held import CORRUPT, expected, shown


@dataclasses.dataclass
class Wide:
    text: str
    number: int
    real: float
    flag: bool
    day: date
    clock: time
    id: UUID
    price: Decimal
    anything: Any
    either: int | str
    colour: Colour
    point: Point | None
    points: list[Point]
    named: dict[str, Any]
    pair: tuple[int, Any]


def texts(count: int) -> list[bytes | None]:
    random = Random(7)
    found = [random_json(random, Wide).encode() for _ in range(count)]
    return [None, b"null", *found[: count // 2], *(damaged(random, one) for one in found[count // 2 :])]


def rows(frame: DataFrame, kind: Any) -> list[Any]:
    found = frame.select("offset", "value", "_corrupt").sort("offset").collect()
    return [CORRUPT if row._corrupt is not None else shown(kind, plain(row.value)) for row in found]


def plain(value: Any) -> Any:
    if isinstance(value, VariantVal):
        return value.toJson()
    if isinstance(value, Row):
        return {name: plain(one) for name, one in value.asDict().items()}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return list(map(plain, value)) if isinstance(value, list) else value


def write(log: EmbeddedLog, column: list[bytes | None]) -> None:
    log.append(T0, Columns([None] * len(column), column, [0] * len(column)))


@pytest.mark.parametrize("through", ["source", "mapInArrow"])
def test_json_through_spark(log: EmbeddedLog, spark: SparkSession, through: str) -> None:
    setcontext(Context(prec=60))
    column = texts(300)
    write(log, column)
    if through == "source":
        frame = read_topic(spark, f"embedded:{log.path}", "t", value=Wide)
    else:
        types = types_of(bytes, Wide)
        frame = types.shown(types.decoded(read_topic(spark, f"embedded:{log.path}", "t").drop("_corrupt")))
    wanted = [expected(serde_of(Wide), Wide, data) for data in column]
    for found, want, data in zip(rows(frame, Wide), wanted, column, strict=True):
        assert found == want, data
    assert 20 < wanted.count(CORRUPT) < 200


PLAIN = [
    (
        str,
        [b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\x00", "ä😀".encode(), b"\xf0\x9f\x98"],
    ),
    (int, [b"\x80" + bytes(7), b"\xff" * 8, b"\x7f" + b"\xff" * 7]),
    (float, [b"\x80" + bytes(7), b"\x7f\xf0" + bytes(6), b"\x7f\xf8" + bytes(6), bytes(7) + b"\1"]),
    (bool, [b"\0", b"\1", b"\2", b"\0\0"]),
]


@pytest.mark.parametrize(("kind", "column"), PLAIN, ids=["str", "int", "float", "bool"])
def test_what_spark_decodes_itself(
    log: EmbeddedLog, spark: SparkSession, kind: Any, column: list[bytes | None]
) -> None:
    random = Random(7)
    column = [None, b"", *column, *(random.randbytes(random.choice([1, 2, 3, 4, 7, 8, 8, 9])) for _ in range(2000))]
    column += ["".join(chr(random.randrange(1, 0x7FF)) for _ in range(5)).encode() for _ in range(500)]
    write(log, column)
    found = rows(read_topic(spark, f"embedded:{log.path}", "t", value=kind), kind)
    assert found == [_decoded(kind, data) for data in column]


def _decoded(kind: Any, data: bytes | None) -> Any:
    try:
        return None if data is None else shown(kind, serde_of(kind).decode(data))
    except Exception:
        return CORRUPT


SCRIPT = """
from __future__ import annotations
from dataclasses import dataclass
from datetime import date
from streamtopo.serdes import serde_of
from streamtopo.spark.decoding.decoding import Decoding
@dataclass
class Place:
    since: date
@dataclass
class Visit(Place):
    before: Place | None
print(Decoding({"value": serde_of(Visit)}).text())
"""


def test_classes_of_a_script_are_known_in_other_processes(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    text = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=True).stdout
    kind = decoding_of(text.strip()).decoders["value"].shape.spark
    assert kind.simpleString() == "struct<since:date,before:struct<since:date>>"
