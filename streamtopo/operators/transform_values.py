"""Tables whose values a function or a processor-like transformer makes; it is called where there is no row too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from streamtopo.errors import StreamtopoError, TopologyError
from streamtopo.operators.derived import Derive, unsent
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables import old_values, put
from streamtopo.processors import Processor, ProcessorContext, Record, ValueTransformer
from streamtopo.records import NOTHING, OUTDATED, Chunk, each_row
from streamtopo.stores.state import Row, State
from streamtopo.topology import Bindings

Values = Callable[[Chunk], list[Any]]
"""A new value for each row, in the order of the rows."""


def values_of(function: Callable[[Any, Any], Any]) -> Values:
    return lambda chunk: each_row(function, chunk.keys, chunk.values)


def row_of(function: Callable[[Any, Any], Any]) -> Derive:
    def derive(key: Any, row: Row | None) -> Row | None:
        value, time = (None, -1) if row is None else row
        new = function(key, value)
        return None if new is None else (new, time)

    return derive


@dataclass(frozen=True)
class Transforming:
    """A table without rows of its own. Old values are made too, each right after the new one."""

    values: Values
    sends_old: bool

    def __call__(self, chunk: Chunk) -> Chunk:
        if not self.sends_old:
            return chunk.with_values(self.values(chunk)).with_old(unsent(chunk.old))
        twice = [place for place in range(len(chunk)) for _ in range(2)]
        both = [value for pair in zip(chunk.values, old_values(chunk), strict=True) for value in pair]
        known = [value is not OUTDATED for value in both]
        made = iter(self.values(chunk.take(twice).with_values(both).select(known)))
        results = [next(made) if is_known else OUTDATED for is_known in known]
        return chunk.with_values(results[::2]).with_old(results[1::2])

    def during(self, time: int, call: Callable[[], object]) -> Chunk:
        return _quiet(self.values, time, call)


@dataclass(frozen=True)
class KeepingTransformed(Keeping):
    values: Values

    def during(self, time: int, call: Callable[[], object]) -> Chunk:
        return _quiet(self.values, time, call)


def kept_transformed(values: Values, state: State) -> KeepingTransformed:
    return KeepingTransformed(lambda chunk: put(state, chunk.with_values(values(chunk))), state, values)


# -- the user's own transformers


class Opened(Protocol):
    """The engine's step for a processor."""

    def __call__(self, chunk: Chunk) -> Chunk: ...

    def during(self, time: int, call: Callable[[], object]) -> Chunk: ...


@dataclass(frozen=True)
class Transformer:
    """The values that a transformer of the user's makes, in one task."""

    process: Opened

    def __call__(self, chunk: Chunk) -> list[Any]:
        out = self.process(chunk)
        if len(out) != len(chunk):
            raise StreamtopoError(_FORWARDED)
        return out.values


_FORWARDED = "the transformer forwarded a record; return the value from transform, or use a processor"


def _quiet(values: Values, time: int, call: Callable[[], object]) -> Chunk:
    """A call that the transformer scheduled."""
    assert isinstance(values, Transformer), "only a transformer has a context to schedule calls with"
    if len(values.process.during(time, call)):
        raise StreamtopoError(_FORWARDED)
    return NOTHING


def opened(supplier: Callable[[], ValueTransformer], node: str, bindings: Bindings) -> Transformer:
    process: Any = bindings.process(node, lambda: _Adapter(supplier()), True)
    return Transformer(process)


class _Adapter(Processor):
    """A transformer as a processor: one record out for each one in."""

    def __init__(self, transformer: ValueTransformer) -> None:
        if not callable(getattr(transformer, "transform", None)) or isinstance(transformer, type):
            raise TopologyError(f"the supplier returned {transformer!r:.80}; it must return a new ValueTransformer")
        self._transformer = transformer

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self._transformer.init(context)

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(self._transformer.transform(record.key, record.value)))

    def close(self) -> None:
        self._transformer.close()
