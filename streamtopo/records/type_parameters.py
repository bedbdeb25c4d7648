"""Type parameters, above all of keys and values. Without arguments, `KStream` is `KStream[Any, Any]`."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # defaults are known from Python 3.13 on; only type checkers need them
else:

    def TypeVar(name: str, *, default: Any = None, **options: Any) -> typing.TypeVar:
        return typing.TypeVar(name, **options)


T = TypeVar("T", default=Any)

K = TypeVar("K", covariant=True, default=Any)
"""The type of the keys of a stream, table or record."""
V = TypeVar("V", covariant=True, default=Any)
"""The type of its values."""
TK = TypeVar("TK", default=Any)
"""The type of the keys of a table. A join needs this very type: it looks keys up by their bytes."""

KIn = TypeVar("KIn", contravariant=True, default=Any)
"""The type of the keys that a processor gets, or that may be forwarded."""
VIn = TypeVar("VIn", contravariant=True, default=Any)
KOut = TypeVar("KOut", covariant=True, default=Any)
"""The type of the keys that a processor forwards."""
VOut = TypeVar("VOut", covariant=True, default=Any)

A = TypeVar("A")
"""The type of an aggregate."""
K1 = TypeVar("K1")
"""The type of the same keys without None."""
V1 = TypeVar("V1")
K2 = TypeVar("K2")
"""The type of the keys of another stream or table: the result, or the other side of a join."""
V2 = TypeVar("V2")
V3 = TypeVar("V3")
"""The type of the values that a joiner returns."""

KeyOrNone = TypeVar("KeyOrNone", default=bytes | None)
"""The type of keys of a topic: if none is declared, bytes; and None in records without a key."""
ValueOrNone = TypeVar("ValueOrNone", default=bytes | None)
RowKey = TypeVar("RowKey", default=bytes)
"""The type of keys of a table, which has no row without a key."""
RowValue = TypeVar("RowValue", default=bytes)
