"""Types to bytes and back: one value at a time with good errors, or a column at a time at full speed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import struct
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias

from streamtopo.errors import SerdeError, StreamtopoError, TopologyError, faults, safely
from streamtopo.records.type_parameters import T
from streamtopo.row_calls import in_parts
from streamtopo.serdes.checks import Fit, Look, check_returned, checker
from streamtopo.serdes.exact_json import OPTIONS, SORTED, TEXT_KEYS, dumps, dumps_column, loads, loads_column
from streamtopo.serdes.json_types import Misfit, converter, short_name, shown, to_json

Convert = Callable[[Any], Any]
Columns = Callable[[list[Any]], list[Any]]
Recipe = tuple[Callable[..., Any], tuple[Any, ...]]
_FEW = 4
"""Shorter columns are checked faster value by value."""


@dataclass(frozen=True)  # with slots, Serde[Order](…) fails in Python 3.11
class Serde(Generic[T]):
    """How values become bytes. `encode` and `decode` never get None, which is a null in the log."""

    name: str
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]
    mutable: bool = True
    """Whether values can be changed in place. If so, they are copied before they are shared."""
    exact: bool = False
    """Whether equal values have equal bytes and can be hashed, so that dicts may use values as keys."""
    window_bytes: int = 0
    """The number of bytes at the end of a windowed key that contain the window. They do not change the partition."""
    inner: Serde | None = field(default=None, repr=False, compare=False)
    """For windowed keys: the serde of the keys without windows. For versions: the serde of the values."""
    fast_encode: Columns | None = field(default=None, repr=False, compare=False)
    """Encodes a whole column. At a None or a wrong value it may raise any error; then `encode` explains it."""
    fast_decode: Columns | None = field(default=None, repr=False, compare=False)
    kind: Any = field(default=None, repr=False, compare=False)
    """The type of the values, without windows or versions. None if the serde was made of functions."""
    made: Recipe | None = field(default=None, init=False, repr=False, compare=False)
    """The function that created it, and its arguments; None for a serde of your own functions."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled as how it was made, because compiled functions cannot be pickled."""
        return self.made or super().__reduce_ex__(protocol)

    @property
    def shown(self) -> str:
        """The type of the values, for people."""
        if self.inner is not None:
            return f"Windowed[{self.inner.shown}]" if self.window_bytes else self.inner.shown
        return self.name if self.kind is None else short_name(self.kind)

    def encode_column(self, column: list[Any]) -> list[bytes | None]:
        return self._convert(self.fast_encode, self.encode, column)

    def decode_column(self, column: list[bytes | None]) -> list[Any]:
        return self._convert(self.fast_decode, self.decode, column)

    def decode_column_partly(self, column: list[bytes | None]) -> tuple[list[Any], dict[int, Exception]]:
        """The same, but with None for what cannot be decoded; the errors are given by place."""

        def decode(data: bytes | None) -> Any:
            return None if data is None else self.decode(data)

        decoded, errors = in_parts(self.fast_decode or self.decode_column, decode, column)
        return decoded, {place: self._explained(column[place], errors.pop(place)) for place in list(errors)}

    def inner_keys(self, keys: list[bytes | None]) -> list[bytes | None]:
        """The bytes of encoded keys that decide their partition."""
        cut = self.window_bytes
        return [key and key[:-cut] for key in keys] if cut else keys

    def _convert(self, fast: Columns | None, convert: Convert, column: list[Any]) -> list[Any]:
        if fast is not None:
            with contextlib.suppress(Exception):
                return fast(column)
            with contextlib.suppress(Exception):
                converted = iter(fast([value for value in column if value is not None]))
                return [None if value is None else next(converted) for value in column]
        at = None
        try:
            return [None if (at := value) is None else convert(value) for value in column]
        except StreamtopoError:
            raise
        except faults() as error:
            raise self._explained(at, error) from error

    def _explained(self, value: Any, error: Exception) -> Exception:
        if isinstance(error, StreamtopoError):
            return error
        explained = SerdeError(f'serde "{self.name}" failed on {shown(value)}: {safely(repr, error)}')
        explained.__cause__ = error
        return explained


SerdeOrClass: TypeAlias = Serde[T] | type[T]
SerdeLike: TypeAlias = SerdeOrClass[T] | types.UnionType
"""How values become bytes: by a serde, or by their type."""


def identity_of(serde: Serde) -> Convert:
    """The function from a value to what dicts may use in its place: itself if the serde is exact, or its bytes."""
    return _unchanged if serde.exact else serde.encode


def _unchanged(value: Any) -> Any:
    return value


def made_again(make: Callable[..., Serde]) -> Callable[..., Serde]:
    """For functions that make serdes: where a serde is unpickled, the function is called again."""

    @functools.wraps(make)
    def made(*arguments: Any) -> Serde:
        serde = make(*arguments)
        object.__setattr__(serde, "made", (made, arguments))
        return serde

    return made


def is_checked_json(serde: Serde) -> bool:
    """Whether it reads the JSON of its type with `converter`, which checks it."""
    return serde.made is not None and serde.made[0] is _json_model


def encoded(serde: Serde, column: list[Any], what: str) -> list[bytes | None]:
    """The column's bytes. If a value does not fit the declared type, the usual cause is a missing declaration."""
    try:
        return serde.encode_column(column)
    except Exception as error:
        raise _misfit(what, error) from error


def _misfit(what: str, error: Exception) -> SerdeError:
    """In a function of its own: a local variable in the frame that raises it would keep the frame in memory."""
    misfit = SerdeError(f"the {what} does not fit: {error}; declare its type with {what}=… where it changes")
    misfit.misfit = what
    return misfit


def serde_of(spec: SerdeLike[T], *, key: bool = False) -> Serde[T]:
    """The serde for a type; with `key`, JSON is written with sorted names, so equal keys get equal bytes."""
    if isinstance(spec, Serde):
        return spec
    kind: Any = spec
    try:
        return _serde_of_type(kind, key)
    except TypeError:  # an unhashable annotation, such as Literal[[]]
        return _serde_of_type.__wrapped__(kind, key)


@functools.cache
def _serde_of_type(spec: Any, key: bool) -> Serde:
    """Cached, so that the same type has the same serde wherever it is declared."""
    kind = without_none(spec)
    if isinstance(kind, type) and kind in _PLAIN:
        return _PLAIN[kind]
    if _is_plain_json(kind):
        return _plain_json(kind, key)
    if hasattr(kind, "model_validate_json"):
        return _pydantic(kind, key)
    if hasattr(kind, "__struct_fields__"):
        return _msgspec(kind, key)
    if dataclasses.is_dataclass(kind) or _runtime(kind) in (list, dict, tuple, set, frozenset):
        return _json_model(kind, key)
    raise TopologyError(
        f"there is no serde for {shown(spec)}; give str, bytes, int, float, bool, dict, list, a dataclass, "
        'TypedDict, pydantic, msgspec, collections of these, or your own Serde("name", encode, decode)'
    )


def without_none(spec: Any) -> Any:
    """`Order | None` is `Order`: every value may be None."""
    if typing.get_origin(spec) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(spec) if member is not types.NoneType]
        return members[0] if len(members) == 1 else spec
    return spec


def _is_plain_json(kind: Any) -> bool:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is dict:
        return arguments[0] is str and _is_plain_json(arguments[1])
    if origin in (list, typing.Union, types.UnionType):
        return all(map(_is_plain_json, arguments))
    return kind in (dict, list, str, int, float, bool, types.NoneType, Any)


def _encoder(kind: Any, convert: Convert, *, loose: bool = False) -> Convert:
    """`convert` for values of one type; with `loose` also for other values that it accepts (ints of numpy)."""
    runtime = _runtime(kind)

    def encode(value: Any) -> bytes:
        try:
            if loose or isinstance(value, runtime):
                return convert(value)  # type: ignore[no-any-return]
        except Exception as error:
            if isinstance(value, runtime):
                text = f"{shown(value)} cannot be written as {short_name(kind)}: {error}"
                raise SerdeError(text) from error
        raise SerdeError(f"expected {short_name(kind)}, got {shown(value)}")

    return encode


def _decoder(convert: Convert, explanation: str) -> Convert:
    def decode(data: bytes) -> Any:
        try:
            return convert(data)
        except SerdeError:
            raise
        except Exception as error:
            text = explanation.format(error=error, length=len(data))
            raise SerdeError(f"{text}: {shown(data).partition(' ')[2]}") from error

    return decode


def _runtime(kind: Any) -> Any:
    return dict if typing.is_typeddict(kind) else typing.get_origin(kind) or kind


def _all(kind: type, column: list[Any]) -> list[Any]:
    if set(map(type, column)) <= {kind}:
        return column
    raise TypeError(kind)


def _number_serde(kind: type, code: str) -> Serde:
    packer = struct.Struct(f">{code}")

    def pack(value: Any) -> bytes:
        if kind is float and value == value and float(value) != value:
            raise ValueError("it is not exact as a float")
        return packer.pack(value)

    def pack_column(column: list[Any]) -> list[bytes]:
        return list(map(packer.pack, column if kind is int else _all(kind, column)))

    def unpack_column(column: list[bytes]) -> list[Any]:
        if set(map(len, column)) <= {8}:
            return list(struct.unpack(f">{len(column)}{code}", b"".join(column)))
        raise ValueError("not 8 bytes each")

    return Serde(
        kind.__name__,
        _encoder(kind, pack, loose=True),
        _decoder(lambda data: packer.unpack(data)[0], f"8 bytes were expected for {kind.__name__}, got {{length}}"),
        mutable=False,
        exact=kind is int,
        fast_encode=pack_column,
        fast_decode=unpack_column,
        kind=kind,
    )


def _bool_serde() -> Serde:
    encode, decode = {False: b"\0", True: b"\1"}.__getitem__, {b"\0": False, b"\1": True}.__getitem__
    return Serde(
        "bool",
        _encoder(bool, encode),
        _decoder(decode, "one byte, 0 or 1, was expected for bool, got {length}"),
        mutable=False,
        exact=True,
        fast_encode=lambda column: list(map(encode, _all(bool, column))),
        fast_decode=lambda column: list(map(decode, column)),
        kind=bool,
    )


def _bytes_column(column: list[Any]) -> list[Any]:
    return column if set(map(type, column)) <= {bytes, types.NoneType} else _all(bytes, column)


def _checked(kind: Any, check: Look, write: Convert) -> Convert:
    """For single values, and for columns with a value that does not fit."""
    root = short_name(kind)

    def encode(value: Any) -> bytes:
        try:
            check(value)
            return write(value)  # type: ignore[no-any-return]
        except Misfit as misfit:
            raise SerdeError(f"{root}{misfit.place}: {misfit}" if misfit.place else str(misfit)) from misfit
        except Exception as error:
            raise SerdeError(f"{shown(value)} cannot be written as {root}: {error}") from error

    return encode


def _json_writer(key: bool) -> Convert:
    options = OPTIONS | (SORTED if key else 0)
    return lambda value: dumps(value, to_json, options)


def _checked_columns(encode: Convert, write: Columns, fit: Fit) -> Columns:
    """Raise if one of the values would be read back as a different value."""

    def encode_column(column: list[Any]) -> list[bytes]:
        if len(column) < _FEW:
            return list(map(encode, column))
        encoded = write(column)
        if fit(column):
            return encoded
        raise ValueError("a value does not fit")

    return encode_column


@made_again
def _plain_json(kind: Any, key: bool = False) -> Serde:
    """JSON without a declared type. It is read unchecked. Keys of dicts are str; the column encoder refuses others."""
    look, fit = checker(kind, key=key, text_keys=True)
    options = TEXT_KEYS | (SORTED if key else 0)
    encode = _checked(kind, look, _json_writer(key))
    encode_checked = _checked_columns(encode, lambda column: dumps_column(column, None, options), fit)

    def encode_column(column: list[Any]) -> list[bytes]:
        encoded = encode_checked(column)
        if b"null" in encoded:
            raise ValueError("a None is not a JSON null")
        return encoded

    return Serde(
        "json",
        encode,
        _decoder(loads, "not JSON: {error}"),
        fast_encode=encode_column,
        fast_decode=loads_column,
        kind=kind,
    )


def _model_serde(kind: Any, encode: Convert, decode: Convert, encode_column: Columns, decode_column: Columns) -> Serde:
    return Serde(
        short_name(kind) if typing.get_origin(kind) else f"{kind.__module__}.{kind.__qualname__}",
        encode,
        _decoder(decode, f"not {short_name(kind)}: {{error}}"),
        fast_encode=encode_column,
        fast_decode=decode_column,
        kind=kind,
    )


@made_again
def _json_model(kind: Any, key: bool) -> Serde:
    build = converter(kind)
    look, fit = checker(kind, key=key)
    options = OPTIONS | (SORTED if key else 0)
    encode = _checked(kind, look, _json_writer(key))

    def convert(raw: Any) -> Any:
        return None if raw is None else build(raw)

    return _model_serde(
        kind,
        encode,
        lambda data: convert(loads(data)),
        _checked_columns(encode, lambda column: dumps_column(column, to_json, options), fit),
        lambda column: list(map(convert, loads_column(column))),
    )


def _foreign(kind: Any, write: Convert, read: Convert) -> Serde:
    """Models of pydantic and msgspec. Their packages do not check what they write, so it is read back and compared."""

    def check(value: Any) -> None:
        if type(value) is not kind:
            raise Misfit(f"expected {short_name(kind)}, got {shown(value)}")

    def encode(value: Any) -> bytes:
        data: bytes = write(value)
        check_returned(value, lambda: read(data))
        return data

    def decode(data: bytes) -> Any:
        return None if data == b"null" else read(data)

    def encode_column(column: list[Any]) -> list[bytes]:
        encoded = list(map(write, _all(kind, column)))
        if list(map(read, encoded)) == column:
            return encoded
        raise ValueError("a value does not come back")

    return _model_serde(
        kind, _checked(kind, check, encode), decode, encode_column, lambda column: list(map(decode, column))
    )


@made_again
def _pydantic(kind: Any, key: bool) -> Serde:
    def write(value: Any) -> bytes:
        data: bytes = value.model_dump_json(by_alias=True, warnings=False).encode()
        return dumps(loads(data), to_json, OPTIONS | SORTED) if key else data

    return _foreign(kind, write, kind.model_validate_json)


@made_again
def _msgspec(kind: Any, key: bool) -> Serde:
    json = __import__("msgspec").json
    return _foreign(kind, json.Encoder(order="sorted" if key else None).encode, json.Decoder(kind).decode)


STR: Serde[str] = Serde(
    "str",
    _encoder(str, str.encode),
    _decoder(bytes.decode, "not UTF-8"),
    mutable=False,
    exact=True,
    fast_encode=lambda column: list(map(str.encode, column)),
    fast_decode=lambda column: list(map(bytes.decode, column)),
    kind=str,
)
BYTES: Serde[bytes] = Serde(
    "bytes",
    _encoder(bytes, bytes),
    bytes,
    mutable=False,
    exact=True,
    fast_encode=_bytes_column,
    fast_decode=lambda column: column,
    kind=bytes,
)
INT, FLOAT, BOOL = _number_serde(int, "q"), _number_serde(float, "d"), _bool_serde()
JSON, JSON_KEY = _plain_json(Any), _plain_json(Any, True)
_PLAIN: dict[type, Serde] = {bytes: BYTES, str: STR, int: INT, float: FLOAT, bool: BOOL}
for _kind, _serde in _PLAIN.items():
    object.__setattr__(_serde, "made", (serde_of, (_kind,)))
