"""Tables whose values are made by a function or a transformer, which is also called for deleted rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo.errors import StreamtopoError, TopologyError
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables.conversions import old_values, put
from streamtopo.operators.tables.derived import Derive, unsent
from streamtopo.processors import Processor, ProcessorContext, Record, ValueTransformer
from streamtopo.records import NOTHING, OUTDATED, Chunk
from streamtopo.steps import Step
from streamtopo.stores.rows.state import Row, State
from streamtopo.topology.operator import Bindings


def row_of(function: Callable[[Any, Any], Any]) -> Derive:
    def derive(key: Any, row: Row | None) -> Row | None:
        value, time = (None, -1) if row is None else row
        new = function(key, value)
        return None if new is None else (new, time)

    return derive


class Transforming(Step):
    """A table that keeps no rows. Old values are made too, each right after the new one."""

    def __init__(self, values: Step, *, sends_old: bool) -> None:
        """`values` makes a new value for each row, in the order of the rows."""
        self._values = values
        self._sends_old = sends_old

    def process(self, chunk: Chunk) -> Chunk:
        if not self._sends_old:
            return chunk.with_values(self._values.process(chunk).values).with_old(unsent(chunk.old))
        twice = [place for place in range(len(chunk)) for _ in range(2)]
        both = [value for pair in zip(chunk.values, old_values(chunk), strict=True) for value in pair]
        known = [value is not OUTDATED for value in both]
        made = iter(self._values.process(chunk.take(twice).with_values(both).select(known)).values)
        results = [next(made) if is_known else OUTDATED for is_known in known]
        return chunk.with_values(results[::2]).with_old(results[1::2])

    def punctuate(self, time: int, call: Callable[[], object]) -> Chunk:
        return self._values.punctuate(time, call)

    def close(self) -> None:
        self._values.close()


class KeepingTransformed(Keeping):
    def __init__(self, values: Step, rows: State) -> None:
        super().__init__(lambda chunk: put(rows, chunk.with_values(values.process(chunk).values)), rows)
        self._values = values

    def punctuate(self, time: int, call: Callable[[], object]) -> Chunk:
        return self._values.punctuate(time, call)

    def close(self) -> None:
        self._values.close()


# -- transformers of the user


class TransformerStep(Step):
    """The values that a transformer returns."""

    def __init__(self, processor: Step) -> None:
        """`processor` is the transformer, opened as a processor."""
        self._processor = processor

    def process(self, chunk: Chunk) -> Chunk:
        out = self._processor.process(chunk)
        if len(out) != len(chunk):
            raise StreamtopoError(_FORWARDED)
        return out

    def punctuate(self, time: int, call: Callable[[], object]) -> Chunk:
        if len(self._processor.punctuate(time, call)):
            raise StreamtopoError(_FORWARDED)
        return NOTHING

    def close(self) -> None:
        self._processor.close()


_FORWARDED = "the transformer forwarded a record; return the value from transform, or use a processor"


def opened(supplier: Callable[[], ValueTransformer], node: str, bindings: Bindings) -> TransformerStep:
    return TransformerStep(bindings.process(node, lambda: _Adapter(supplier()), True))


class _Adapter(Processor):
    """A transformer as a processor: one record for each record."""

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
