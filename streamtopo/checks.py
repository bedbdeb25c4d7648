"""Whether values come back from JSON as they were put: one check for each type, built once."""

from __future__ import annotations

import dataclasses
import operator
import types
import typing
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from enum import Enum
from math import isfinite
from typing import Any, NamedTuple, Union

from streamtopo.exact_json import dumps, loads
from streamtopo.models import Misfit, converter, hints_of, members_of, plain_type, short_name, shown, to_json

Look = Callable[[Any], object]
"""Raises a Misfit for a value that would not come back."""
_SCALARS = frozenset({str, int, bool, types.NoneType})
_ARRAYS = (list, tuple, set, frozenset)


class Check(NamedTuple):
    at_once: frozenset[Any]
    """Values of exactly these types come back."""
    look: Look
    """For values of other types."""
    fit: Callable[[Collection[Any]], bool]
    """A quick test of many values; where it fails, `look` decides about each."""


def checker(kind: Any, *, key: bool = False) -> Look:
    """The check of a type.

    An int is good where a float is declared, and a bool where an int is; but not in keys, as equal keys have to be
    equal as bytes.
    """
    at_once, look, _ = _Checks(key).of(kind)
    if not at_once:
        return look
    return lambda value: None if type(value) in at_once else look(value)


def check_returned(value: Any, read: Callable[[], Any], same: Callable[[Any, Any], Any] = operator.eq) -> None:
    """Raises a Misfit where what is read is not the same value; what is never the same as itself is not compared."""
    try:
        back = read()
    except Exception as error:
        raise Misfit(f"{shown(value)} could be written, but not be read again: {error}") from error
    if not same(back, value) and same(read(), back):
        raise Misfit(f"{shown(value)} would come back as {shown(back)}")


class _Checks:
    """Of a type and all that is inside it."""

    def __init__(self, key: bool) -> None:
        self._key = key
        self._built: dict[Any, Check] = {}

    def of(self, kind: Any) -> Check:
        kind = plain_type(kind)
        if kind not in self._built:
            self._built[kind] = self._build(kind)
        return self._built[kind]

    def _build(self, kind: Any) -> Check:
        origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
        if origin in (Union, types.UnionType):
            return self._union(kind, [plain_type(member) for member in arguments])
        if origin is tuple and arguments and arguments[-1] is not Ellipsis:
            return _slow(_row([self.of(argument) for argument in arguments]))
        if origin in _ARRAYS:
            return _slow(_array(origin, self.of(arguments[0] if arguments else Any)))
        if origin is dict:
            key, value = arguments or (str, Any)
            return _slow(_dict(_key(plain_type(key), strict=self._key), self.of(value)))
        if typing.is_typeddict(kind):
            return self._typed_dict(kind)
        if hasattr(kind, "model_validate") or hasattr(kind, "__struct_fields__"):
            return _slow(_read_again(kind, _of_type(kind), operator.eq))
        return self._dataclass(kind) if dataclasses.is_dataclass(kind) else self._scalar(kind)

    def _scalar(self, kind: Any) -> Check:
        if kind in (Any, object):
            return Check(_SCALARS, _json, _flat)
        if kind is float:
            return Check(frozenset(), _float(strict=self._key), _floats)
        if typing.get_origin(kind) is typing.Literal:
            return _slow(_literal(kind))
        return _of_types(kind, {int, bool} if kind is int and not self._key else {kind})

    def _union(self, kind: Any, members: list[Any]) -> Check:
        checks = [self.of(member) for member in members]
        at_once = frozenset().union(*(check.at_once for check in checks))
        if not _told_apart(members):
            return _slow(_read_again(kind, _any_of(kind, at_once, checks), _alike))
        return Check(at_once, _any_of(kind, at_once, checks), lambda values: at_once.issuperset(map(type, values)))

    def _dataclass(self, kind: Any) -> Check:
        fields: list[tuple[str, frozenset[Any], Look]] = []
        names = [field.name for field in dataclasses.fields(kind)]

        def look(value: Any) -> None:
            if type(value) is not kind:
                raise _unexpected(kind, value)
            name = ""
            try:
                for name, at_once, look_at in fields:
                    if type(one := getattr(value, name)) not in at_once:
                        look_at(one)
            except Misfit as misfit:
                misfit.place = f".{name}{misfit.place}"
                raise

        whole = _read_again(kind, look, _same_fields(names)) if _has_code(kind) else look
        self._built[kind] = check = _slow(whole)
        hints = hints_of(kind)
        fields.extend((name, *self.of(hints[name])[:2]) for name in names)
        return check

    def _typed_dict(self, kind: Any) -> Check:
        fields: dict[str, Check] = {}
        other = self.of(Any)

        def look(value: Any) -> None:
            if type(value) is not dict or not _TEXT.fit(value):
                raise _unexpected(kind, value)
            name = ""
            try:
                for name, one in value.items():
                    check = fields.get(name, other)
                    if type(one) not in check.at_once:
                        check.look(one)
            except Misfit as misfit:
                misfit.place = f".{name}{misfit.place}"
                raise

        self._built[kind] = built = _slow(look)
        fields.update((name, self.of(hint)) for name, hint in hints_of(kind).items())
        return built


def _slow(look: Look) -> Check:
    """Nothing is known of a value by its type alone."""
    return Check(frozenset(), look, lambda values: not values)


def _of_types(kind: Any, right: Iterable[type]) -> Check:
    at_once = frozenset(right)

    def look(value: Any) -> None:
        raise _unexpected(kind, value)

    return Check(at_once, look, lambda values: at_once.issuperset(map(type, values)))


def _unexpected(kind: Any, value: Any) -> Misfit:
    return Misfit(f"expected {short_name(kind)}, got {shown(value)}")


# -- numbers and texts


def _float(*, strict: bool) -> Look:
    def look(value: Any) -> None:
        if type(value) is float:
            if not isfinite(value):
                raise Misfit(f"JSON has no {value}; put None, or let the whole value be a float, which keeps it")
        elif strict or type(value) is not int:
            raise _unexpected(float, value)
        elif abs(value) > 2**53 and (abs(value) >= 2**1024 or float(value) != value):
            raise Misfit(f"int {value} is not exact as a float; declare int")

    return look


def _floats(values: Collection[Any]) -> bool:
    """A sum that is finite has no other parts."""
    return set(map(type, values)) <= {float} and isfinite(sum(values))


def _literal(kind: Any) -> Look:
    members = members_of(kind)
    allowed, types_ = {(type(member), member) for member in members}, set(map(type, members))

    def look(value: Any) -> None:
        if type(value) not in types_ or (type(value), value) not in allowed:
            raise _unexpected(kind, value)

    return look


_NUMBER = _float(strict=False)
_TEXT = _of_types(str, {str})


def _key(kind: Any, *, strict: bool) -> Check:
    if kind in (str, Any):
        return _TEXT
    if kind is float:
        return Check(frozenset(), _float(strict=strict), _floats)
    if kind is not bool and members_of(kind):
        return _slow(_literal(kind))
    if kind is datetime:  # orjson writes keys itself, and not every offset from UTC as it is
        return _slow(_time_key)
    return _of_types(kind, {kind})


def _time_key(value: Any) -> None:
    if type(value) is not datetime:
        raise _unexpected(datetime, value)
    (text,) = loads(dumps({value: None}, to_json))
    check_returned(value, lambda: datetime.fromisoformat(text))


# -- what JSON has without a declared type


def _json(value: Any) -> None:
    kind = type(value)
    if kind is dict:
        _plain_dict(value)
    elif kind is list:
        _plain_list(value)
    elif kind is float:
        _NUMBER(value)
    elif kind not in _SCALARS:
        raise Misfit(
            f"JSON does not give back {shown(value)}; put str, int, float, bool, None, a list or a dict of these, "
            "or declare a type that has it"
        )


def _flat(values: Collection[Any]) -> bool:
    kinds = set(map(type, values))
    if float in kinds:
        kinds.discard(float)
        return kinds <= _SCALARS and isfinite(sum([one for one in values if type(one) is float]))
    return kinds <= _SCALARS


# -- collections


def _each(items: Iterable[tuple[Any, Any]], check: Check, place: str = "[{}]") -> None:
    at_once, look, _ = check
    at = None
    try:
        for at, one in items:  # noqa: B007
            if type(one) not in at_once:
                look(one)
    except Misfit as misfit:
        misfit.place = place.format(at) + misfit.place
        raise


def _array(origin: Any, check: Check) -> Look:
    def look(value: Any) -> None:
        if type(value) is not origin:
            raise _unexpected(origin, value)
        if not check.fit(value):
            _each(enumerate(value), check)

    return look


def _row(checks: list[Check]) -> Look:
    def look(value: Any) -> None:
        if type(value) is not tuple or len(value) != len(checks):
            raise _unexpected(tuple, value)
        for at, check in enumerate(checks):
            _each([(at, value[at])], check)

    return look


def _dict(key: Check, check: Check) -> Look:
    def look(value: Any) -> None:
        if type(value) is not dict:
            raise _unexpected(dict, value)
        if not key.fit(value):
            _each(zip(value, value, strict=True), key, '["{}"]')
        if not check.fit(value.values()):
            _each(value.items(), check, '["{}"]')

    return look


_ANYTHING = Check(_SCALARS, _json, _flat)
_plain_dict, _plain_list = _dict(_TEXT, _ANYTHING), _array(list, _ANYTHING)


# -- unions


def _told_apart(members: list[Any]) -> bool:
    """Whether JSON says by itself which member a value is of: at most one array, one object, and no other texts."""
    others = [member for member in members if member not in _SCALARS | {float}]
    forms = [_form(member) for member in others]
    if forms == ["text"]:  # together with None, unless it is one of those that are written as null
        return len(members) == 2 and types.NoneType in members and None not in map(_written, members_of(others[0]))
    return "text" not in forms and len(set(forms)) == len(forms)


def _written(member: Any) -> Any:
    return member.value if isinstance(member, Enum) else member


def _form(kind: Any) -> str:
    origin = typing.get_origin(kind) or kind
    if origin in _ARRAYS:
        return "array"
    objects = ("model_validate", "__struct_fields__", "__dataclass_fields__", "__total__")
    return "object" if origin is dict or any(hasattr(kind, mark) for mark in objects) else "text"


def _any_of(kind: Any, at_once: frozenset[Any], checks: list[Check]) -> Look:
    def look(value: Any) -> None:
        if type(value) in at_once:
            return
        misfits = []
        for check in checks:
            try:
                check.look(value)
                return
            except Misfit as misfit:
                misfits.append(misfit)
        deepest = max(misfits, key=lambda misfit: len(misfit.place))
        if type(value) is float:
            _NUMBER(value)
        raise deepest if deepest.place else _unexpected(kind, value)

    return look


# -- what is read again, because its type alone does not say whether it comes back


def _read_again(kind: Any, first: Look, same: Callable[[Any, Any], Any]) -> Look:
    read = converter(kind)

    def look(value: Any) -> None:
        first(value)
        check_returned(value, lambda: read(loads(dumps(value, to_json))), same)

    return look


def _of_type(kind: Any) -> Look:
    def look(value: Any) -> None:
        if type(value) is not kind:
            raise _unexpected(kind, value)

    return look


def _has_code(kind: Any) -> bool:
    """What makes it may make another one of the same fields."""
    return hasattr(kind, "__post_init__") or not kind.__dataclass_params__.init


def _same_fields(names: list[str]) -> Callable[[Any, Any], bool]:
    return lambda one, other: all(getattr(one, name) == getattr(other, name) for name in names)


def _alike(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(one) is not type(other):
        return False
    if type(one) in (list, tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if type(one) in (set, frozenset):
        return one == other and _alike(sorted(one, key=repr), sorted(other, key=repr))
    if type(one) is dict:
        return one.keys() == other.keys() and all(_alike(item, other[key]) for key, item in one.items())
    if dataclasses.is_dataclass(one):
        return all(_alike(getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one))
    return bool(one == other)
