"""What Spark's Python processes need to decode keys and values: passed to them as text, and done to their batches."""

from __future__ import annotations

import base64
import functools
import os
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, StructField, StructType

from streamtopo.errors import ConfigError
from streamtopo.serdes import Serde
from streamtopo.serdes.json_types import hints_of
from streamtopo.spark.decoding.decoder import Decoder


class Decoding:
    """Decodes some of the columns of records, each by its serde."""

    def __init__(self, serdes: Mapping[str, Serde]) -> None:
        self._serdes = serdes
        self.decoders = {name: Decoder(serde) for name, serde in serdes.items()}

    def schema(self, records: StructType) -> StructType:
        """The columns of decoded records: at the end, a column for the bytes that do not fit."""
        names = [name for name in records.fieldNames() if name in self.decoders]
        decoded = {name: StructField(name, self.decoders[name].shape.sent) for name in names}
        fields = [decoded.get(field.name, field) for field in records.fields]
        return StructType([*fields, *(StructField(corrupt(name), BinaryType()) for name in names)])

    def batch(self, records: Any) -> Any:
        names = [name for name in records.schema.names if name in self.decoders]
        decoded = {name: self.decoders[name].decode(records.column(name)) for name in names}
        columns = {name: records.column(name) for name in records.schema.names}
        columns |= {name: array for name, (array, _) in decoded.items()}
        columns |= {corrupt(name): array for name, (_, array) in decoded.items()}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def text(self) -> str:
        """The serdes, for other processes: they import classes from the same folders, or get those of scripts."""
        kinds = [kind for serde in self._serdes.values() for kind in _kinds(serde)]
        folders = [os.path.abspath(folder) for folder in sys.path]
        packed = _pickled((_Annotations(_annotations(kinds)), dict(self._serdes)))
        return base64.b64encode(_pickled((folders, packed))).decode()


def _pickled(thing: Any) -> bytes:
    data: bytes = cloudpickle.dumps(thing)  # type: ignore[no-untyped-call]
    return data


def corrupt(name: str) -> str:
    return f"_{name}_corrupt"


def batches(text: str, records: Iterable[Any]) -> Iterator[Any]:
    decoding = decoding_of(text)
    for batch in records:
        yield decoding.batch(batch)


@functools.lru_cache(maxsize=64)
def decoding_of(text: str) -> Decoding:
    folders, packed = cloudpickle.loads(base64.b64decode(text))
    sys.path += [folder for folder in folders if folder not in sys.path]
    try:
        _, serdes = cloudpickle.loads(packed)
        return Decoding(serdes)
    except ImportError as error:
        raise ConfigError(
            f"a process of Spark cannot import the types of a topic: {error}; install them where Spark runs"
        ) from error


class _Annotations:
    """Sets the annotations of classes while it is unpickled: before the serdes, which are made of the classes again."""

    def __init__(self, of: dict[type, dict[str, Any]]) -> None:
        self._of = of

    def __reduce__(self) -> Any:
        return _annotate, (self._of,)


def _annotate(of: dict[type, dict[str, Any]]) -> None:
    for kind, hints in of.items():
        kind.__annotations__ = hints


def _kinds(serde: Serde) -> Iterator[Any]:
    """The types that its values are made of."""
    yield serde.kind
    if serde.inner is not None:
        yield from _kinds(serde.inner)


def _annotations(kinds: Iterable[Any]) -> dict[type, dict[str, Any]]:
    """The annotations of classes that are passed on whole, as those of a script are: the names mean nothing there."""
    found: dict[type, dict[str, Any]] = {}

    def look(kind: Any) -> None:
        for argument in typing.get_args(kind):
            look(argument)
        for base in getattr(kind, "__mro__", ()):
            own = vars(base).get("__annotations__")
            if own and base not in found and _is_passed_whole(base):
                hints = hints_of(base)
                found[base] = {name: hints[name] for name in own}
                for hint in found[base].values():
                    look(hint)

    for kind in kinds:
        look(kind)
    return found


def _is_passed_whole(kind: type) -> bool:
    return kind.__module__ == "__main__" or kind.__module__ not in sys.modules
