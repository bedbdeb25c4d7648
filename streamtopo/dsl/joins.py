"""What a stream can be joined with: another stream, a table, a global table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast, overload

from streamtopo.dsl.global_table import GlobalKTable, join_stream_global
from streamtopo.dsl.stream_join import StreamJoin, join_streams
from streamtopo.dsl.stream_table_join import GlobalJoin, TableJoin, join_stream_table
from streamtopo.errors import TopologyError
from streamtopo.operators.pending import How

if TYPE_CHECKING:
    from streamtopo.dsl.kstream import KStream
    from streamtopo.dsl.ktable import KTable

Joiner = Callable[..., Any]


class Joins:
    """The join methods of a stream. With `with_key` the joiner is called with the key first."""

    @overload
    def join(self, other: KStream, joiner: Joiner, **options: Unpack[StreamJoin]) -> KStream: ...
    @overload
    def join(self, other: GlobalKTable, key: Joiner, joiner: Joiner, /, **options: Unpack[GlobalJoin]) -> KStream: ...
    @overload
    def join(self, other: KTable, joiner: Joiner, **options: Unpack[TableJoin]) -> KStream: ...
    def join(self, other: Any, *functions: Joiner, **options: Any) -> KStream:
        """Each record with what is there of its key: `joiner(value, other)`; without anything, nothing.

        With a stream: each pair of records whose times are at most `within` apart (the other's is from `before` earlier
        to `after` later). With a table: the row at that moment. With a global table: the row of the key that
        `key(key, value)` gives, as last read from its topic.
        """
        return _joined(cast("KStream", self), other, "inner", functions, options)

    @overload
    def left_join(self, other: KStream, joiner: Joiner, **options: Unpack[StreamJoin]) -> KStream: ...
    @overload
    def left_join(
        self, other: GlobalKTable, key: Joiner, joiner: Joiner, /, **options: Unpack[GlobalJoin]
    ) -> KStream: ...
    @overload
    def left_join(self, other: KTable, joiner: Joiner, **options: Unpack[TableJoin]) -> KStream: ...
    def left_join(self, other: Any, *functions: Joiner, **options: Any) -> KStream:
        """Like `join`, but a record that finds nothing is joined with None; with a stream, when its window closes."""
        return _joined(cast("KStream", self), other, "left", functions, options)

    def outer_join(self, other: KStream, joiner: Joiner, **options: Unpack[StreamJoin]) -> KStream:
        """Like `left_join` with a stream, but records of both sides that find nothing are joined with None."""
        return _joined(cast("KStream", self), other, "outer", (joiner,), dict(options))


class _Kind(NamedTuple):
    what: str
    join: Callable[..., KStream]
    options: type[Any]
    functions: str
    number: int


def _joined(this: KStream, other: Any, how: How, functions: tuple[Joiner, ...], options: dict[str, Any]) -> KStream:
    kind = _kind_of(other)
    if kind is None or (how == "outer" and kind.what != "stream"):
        raise TopologyError(
            f'"{this.node}" cannot be {how}-joined with {other!r:.80}; join it with a stream or a table'
        )
    this.check_same_builder(other)
    if len(functions) != kind.number or not all(map(callable, functions)):
        raise TopologyError(
            f'the join of "{this.node}" with a {kind.what} takes {kind.functions}, not {functions!r:.80}'
        )
    if unknown := options.keys() - kind.options.__annotations__.keys():
        raise TopologyError(f'the join of "{this.node}" with a {kind.what} has no option {", ".join(sorted(unknown))}')
    return kind.join(this, other, *functions, how, options)


def _kind_of(other: Any) -> _Kind | None:
    from streamtopo.dsl.kstream import KStream
    from streamtopo.dsl.ktable import KTable

    if isinstance(other, KStream):
        return _Kind("stream", join_streams, StreamJoin, "a joiner", 1)
    if isinstance(other, KTable):
        return _Kind("table", join_stream_table, TableJoin, "a joiner", 1)
    if isinstance(other, GlobalKTable):
        return _Kind("global table", join_stream_global, GlobalJoin, "a function that gives the key, and a joiner", 2)
    return None
