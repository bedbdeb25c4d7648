"""The joins of a stream with a stream, a table or a global table: what their functions get and return."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Unpack, overload

from streamtopo.dsl.joins.stream_join import StreamJoin, StreamJoinOptions, join_streams
from streamtopo.dsl.joins.stream_table_join import (
    GlobalJoin,
    GlobalJoinOptions,
    TableJoin,
    TableJoinOptions,
    join_stream_global,
    join_stream_table,
)
from streamtopo.dsl.ktable import KTable
from streamtopo.dsl.tables.global_table import GlobalKTable
from streamtopo.errors import TopologyError
from streamtopo.operators.joins.unmatched import How
from streamtopo.records.type_parameters import K1, K2, V2, V3, K, V
from streamtopo.serdes import SerdeLike
from streamtopo.topology.answering import answering
from streamtopo.topology.functions import check_function, with_key_or_not

if TYPE_CHECKING:
    from streamtopo.dsl.kstream import KStream

OTHER_KEY = (
    "; to join by another key, read a small table with builder.global_table, or change the stream's with select_key"
)


class StreamJoins(Generic[K, V]):
    """Joiners are called with both values or, with `with_key`, with the key and both values."""

    @overload
    def join(
        self: StreamJoins[K1 | None, V],
        other: KStream[K1 | None, V2],
        joiner: Callable[[V, V2], V3],
        **options: Unpack[StreamJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self: StreamJoins[K1 | None, V],
        other: KStream[K1 | None, V2],
        joiner: Callable[[V, V2], V3 | None],
        *,
        value: SerdeLike[V3],
        **options: Unpack[StreamJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self: StreamJoins[K1 | None, V],
        other: KStream[K1 | None, V2],
        joiner: Callable[[K, V, V2], V3],
        *,
        with_key: Literal[True],
        value: SerdeLike[V3] | None = None,
        **options: Unpack[StreamJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[K2, V2],
        key: Callable[[K, V], K2 | None],
        joiner: Callable[[V, V2], V3],
        /,
        **options: Unpack[GlobalJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[K2, V2],
        key: Callable[[K, V], K2 | None],
        joiner: Callable[[V, V2], V3 | None],
        /,
        *,
        value: SerdeLike[V3],
        **options: Unpack[GlobalJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[K2, V2],
        key: Callable[[K, V], K2 | None],
        joiner: Callable[[K, V, V2], V3],
        /,
        *,
        with_key: Literal[True],
        value: SerdeLike[V3] | None = None,
        **options: Unpack[GlobalJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self: StreamJoins[K1 | None, V],
        other: KTable[K1, V2],
        joiner: Callable[[V, V2], V3],
        **options: Unpack[TableJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self: StreamJoins[K1 | None, V],
        other: KTable[K1, V2],
        joiner: Callable[[V, V2], V3 | None],
        *,
        value: SerdeLike[V3],
        **options: Unpack[TableJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self: StreamJoins[K1 | None, V],
        other: KTable[K1, V2],
        joiner: Callable[[K, V, V2], V3],
        *,
        with_key: Literal[True],
        value: SerdeLike[V3] | None = None,
        **options: Unpack[TableJoin],
    ) -> KStream[K, V3]: ...
    @answering
    def join(self: Any, other: Any, *functions: Callable[..., Any], **options: Any) -> Any:
        """Join each record with the matches for its key: `joiner(value, other)`. Records without a match are dropped.

        With a stream: all pairs of records whose times are at most `within` apart, or whose other time is from `before`
        earlier to `after` later. With a table: the current row. With a global table: the latest row for the key that
        `key(key, value)` returns.
        """
        return _joined(self, other, "inner", functions, options)

    @overload
    def left_join(
        self: StreamJoins[K1 | None, V],
        other: KStream[K1 | None, V2],
        joiner: Callable[[V, V2 | None], V3],
        **options: Unpack[StreamJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self: StreamJoins[K1 | None, V],
        other: KStream[K1 | None, V2],
        joiner: Callable[[V, V2 | None], V3 | None],
        *,
        value: SerdeLike[V3],
        **options: Unpack[StreamJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self: StreamJoins[K1 | None, V],
        other: KStream[K1 | None, V2],
        joiner: Callable[[K, V, V2 | None], V3],
        *,
        with_key: Literal[True],
        value: SerdeLike[V3] | None = None,
        **options: Unpack[StreamJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, V2],
        key: Callable[[K, V], K2 | None],
        joiner: Callable[[V, V2 | None], V3],
        /,
        **options: Unpack[GlobalJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, V2],
        key: Callable[[K, V], K2 | None],
        joiner: Callable[[V, V2 | None], V3 | None],
        /,
        *,
        value: SerdeLike[V3],
        **options: Unpack[GlobalJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, V2],
        key: Callable[[K, V], K2 | None],
        joiner: Callable[[K, V, V2 | None], V3],
        /,
        *,
        with_key: Literal[True],
        value: SerdeLike[V3] | None = None,
        **options: Unpack[GlobalJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self: StreamJoins[K1 | None, V],
        other: KTable[K1, V2],
        joiner: Callable[[V, V2 | None], V3],
        **options: Unpack[TableJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self: StreamJoins[K1 | None, V],
        other: KTable[K1, V2],
        joiner: Callable[[V, V2 | None], V3 | None],
        *,
        value: SerdeLike[V3],
        **options: Unpack[TableJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self: StreamJoins[K1 | None, V],
        other: KTable[K1, V2],
        joiner: Callable[[K, V, V2 | None], V3],
        *,
        with_key: Literal[True],
        value: SerdeLike[V3] | None = None,
        **options: Unpack[TableJoin],
    ) -> KStream[K, V3]: ...
    @answering
    def left_join(self: Any, other: Any, *functions: Callable[..., Any], **options: Any) -> Any:
        """Like `join`, but a record without a match is joined with None; with a stream, when its window closes."""
        return _joined(self, other, "left", functions, options)

    @overload
    def outer_join(
        self: StreamJoins[K1 | None, V],
        other: KStream[K1 | None, V2],
        joiner: Callable[[V | None, V2 | None], V3],
        **options: Unpack[StreamJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def outer_join(
        self: StreamJoins[K1 | None, V],
        other: KStream[K1 | None, V2],
        joiner: Callable[[V | None, V2 | None], V3 | None],
        *,
        value: SerdeLike[V3],
        **options: Unpack[StreamJoin],
    ) -> KStream[K, V3]: ...
    @overload
    def outer_join(
        self: StreamJoins[K1 | None, V],
        other: KStream[K1 | None, V2],
        joiner: Callable[[K, V | None, V2 | None], V3],
        *,
        with_key: Literal[True],
        value: SerdeLike[V3] | None = None,
        **options: Unpack[StreamJoin],
    ) -> KStream[K, V3]: ...
    @answering
    def outer_join(self: Any, other: Any, joiner: Callable[..., Any], **options: Any) -> Any:
        """Like `left_join` with a stream, but records of both sides without a match are joined with None."""
        return _joined(self, other, "outer", (joiner,), options)


def _joined(
    stream: KStream, other: Any, how: How, functions: tuple[Callable[..., Any], ...], options: dict[str, Any]
) -> KStream:
    join = _join_with(other)
    if join is None or (how == "outer" and join.what != "stream"):
        raise TopologyError(f"{stream!r} cannot be {how}-joined with {other!r:.80}; join it with a stream or a table")
    stream.check_same_builder(other)
    if len(functions) != join.number or not all(map(callable, functions)):
        hint = OTHER_KEY if len(functions) > join.number else ""
        if join.what == "stream" and len(functions) == 2 and not callable(functions[1]):
            hint = f"; give the time by its name: within={functions[1]!r}"
        raise TopologyError(
            f"the join of {stream!r} with a {join.what} takes {join.functions}, not {functions!r:.80}{hint}"
        )
    with_key = options.get("with_key", False)
    method = "join" if how == "inner" else f"{how}_join"
    check_function(method, with_key_or_not("joiner", with_key, "value, other"), functions[-1], with_key=with_key)
    for key in functions[:-1]:
        check_function(method, "key(key, value)", key)
    if unknown := options.keys() - join.options.__annotations__.keys():
        raise TopologyError(f"the join of {stream!r} with a {join.what} has no option {', '.join(sorted(unknown))}")
    return join.build(stream, other, *functions, how, options)


class _Join(NamedTuple):
    """How a stream is joined with something, and the functions and options for that."""

    what: str
    build: Callable[..., KStream]
    options: type[Any]
    functions: str
    number: int


def _join_with(other: object) -> _Join | None:
    from streamtopo.dsl.kstream import KStream  # which imports this module

    match other:
        case KStream():
            return _Join("stream", join_streams, StreamJoinOptions, "a joiner", 1)
        case KTable():
            return _Join("table", join_stream_table, TableJoinOptions, "a joiner", 1)
        case GlobalKTable():
            return _Join(
                "global table",
                join_stream_global,
                GlobalJoinOptions,
                "a function that gives the key, and a joiner",
                2,
            )
        case _:
            return None
