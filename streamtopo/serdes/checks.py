"""Checks that values come back from JSON unchanged: one check for each type, built once."""

from __future__ import annotations

import dataclasses
import operator
import types
import typing
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import Enum
from itertools import chain
from math import isfinite
from typing import Any, NamedTuple, Union

from streamtopo.serdes.exact_json import dumps, dumps_column, loads, loads_column
from streamtopo.serdes.json_types import Misfit, converter, hints_of, members_of, plain_type, short_name, shown, to_json

Look = Callable[[Any], object]
"""Raises a Misfit for a value that would not come back."""
Fit = Callable[[list[Any]], bool]
"""Whether all values of a column come back, found at the speed of C where possible.

False, or any exception, only means that `look` must check each value. The values have been encoded before, so no value
contains itself.
"""
_SCALARS = frozenset({str, int, bool, types.NoneType})
_PLAIN = _SCALARS | {float, dict, list}
_EXACT = 2**53
"""Larger ints may not be exact as floats."""
_ARRAYS = (list, tuple, set, frozenset)


class Check(NamedTuple):
    at_once: frozenset[Any]
    """Values of exactly these types come back."""
    look: Look
    """For values of other types."""
    fit: Fit


def checker(kind: Any, *, key: bool = False, text_keys: bool = False) -> tuple[Look, Fit]:
    """The checks of a type: of one value, and of a column.

    An int is accepted where a float is declared, and a bool where an int is declared, but not in keys, because equal
    keys must have equal bytes. With `text_keys`, all keys of dicts in a column are known to be str.
    """
    at_once, look, fit = _Checks(key, text_keys).of(kind)
    if not at_once:
        return look, fit
    return (lambda value: None if type(value) in at_once else look(value)), fit


def check_returned(value: Any, read: Callable[[], Any], same: Callable[[Any, Any], Any] = operator.eq) -> None:
    """Raise a Misfit if the value read back is different; a value that is not equal to itself is not compared."""
    try:
        back = read()
    except Exception as error:
        raise Misfit(f"{shown(value)} could be written, but not be read again: {error}") from error
    if not same(back, value) and same(read(), back):
        raise Misfit(f"{shown(value)} would come back as {shown(back)}")


class _Checks:
    """The check of a type, with the checks of all types inside it."""

    def __init__(self, key: bool, text_keys: bool) -> None:
        self._key, self._text_keys = key, text_keys
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
            return _row([self.of(argument) for argument in arguments])
        if origin in _ARRAYS:
            return _array(origin, self.of(arguments[0] if arguments else Any))
        if origin is dict:
            key, value = arguments or (str, Any)
            return _dict(_key(plain_type(key), strict=self._key), self.of(value), text_keys=self._text_keys)
        if typing.is_typeddict(kind):
            return self._typed_dict(kind)
        if hasattr(kind, "model_validate") or hasattr(kind, "__struct_fields__"):
            return _read_again(kind, _of_type(kind), operator.eq)
        return self._dataclass(kind) if dataclasses.is_dataclass(kind) else self._scalar(kind)

    def _scalar(self, kind: Any) -> Check:
        if kind in (Any, object):
            return Check(_SCALARS, _json, _plain(text_keys=self._text_keys))
        if kind is float:
            return Check(frozenset(), _float(strict=self._key), _floats(strict=self._key))
        if typing.get_origin(kind) is typing.Literal:
            return _literal(kind)
        return _of_types(kind, {int, bool} if kind is int and not self._key else {kind})

    def _union(self, kind: Any, members: list[Any]) -> Check:
        checks = [self.of(member) for member in members]
        at_once = frozenset().union(*(check.at_once for check in checks))
        if not _distinguishable(members):
            return _read_again(kind, _slow(_any_of(kind, at_once, checks)), _alike)

        def fit(values: list[Any]) -> bool:
            others = set(map(type, values)) - at_once
            groups = [[one for one in values if type(one) is other] for other in others]
            return all(any(check.fit(group) for check in checks) for group in groups)

        return Check(at_once, _any_of(kind, at_once, checks), fit)

    def _dataclass(self, kind: Any) -> Check:
        fields: list[tuple[str, Check]] = []
        names = [field.name for field in dataclasses.fields(kind)]
        columns = _columns(names)

        def look(value: Any) -> None:
            if type(value) is not kind:
                raise _unexpected(kind, value)
            name = ""
            try:
                for name, (at_once, look_at, _) in fields:
                    if type(one := getattr(value, name)) not in at_once:
                        look_at(one)
            except Misfit as misfit:
                misfit.place = f".{name}{misfit.place}"
                raise

        def fit(values: list[Any]) -> bool:
            parts = zip(fields, columns(values), strict=False)
            return _are(kind, values) and all(check.fit(column) for (_, check), column in parts)

        check = Check(frozenset(), look, fit)
        if _has_code(kind):
            check = _read_again(kind, check, _same_fields(names))
        self._built[kind] = check
        hints = hints_of(kind)
        fields.extend((name, self.of(hints[name])) for name in names)
        return check

    def _typed_dict(self, kind: Any) -> Check:
        fields: dict[str, Check] = {}
        other = self.of(Any)

        def look(value: Any) -> None:
            if type(value) is not dict or not _are(str, value):
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

        self._built[kind] = built = Check(frozenset(), look, _named(fields, other))
        fields.update((name, self.of(hint)) for name, hint in hints_of(kind).items())
        return built


def _slow(look: Look) -> Check:
    """Each value is looked at."""

    def fit(values: list[Any]) -> bool:
        for value in values:
            look(value)
        return True

    return Check(frozenset(), look, fit)


def _of_types(kind: Any, right: Iterable[type]) -> Check:
    at_once = frozenset(right)

    def look(value: Any) -> None:
        raise _unexpected(kind, value)

    return Check(at_once, look, lambda values: at_once.issuperset(map(type, values)))


def _are(kind: Any, values: Iterable[Any]) -> bool:
    """All of exactly this type."""
    return set(map(type, values)) <= {kind}


def _named(fields: dict[str, Check], other: Check) -> Fit:
    """Dicts with these names, and possibly others."""

    def fit(values: list[Any]) -> bool:
        if not _are(dict, values) or not _are(str, chain.from_iterable(values)):
            return False
        for name, check in fields.items():
            if not check.fit([value[name] for value in values if name in value]):
                return False
        if fields.keys() >= set(chain.from_iterable(values)):
            return True
        return other.fit([one for value in values for name, one in value.items() if name not in fields])

    return fit


def _columns(names: list[str]) -> Callable[[list[Any]], Iterable[list[Any]]]:
    """A column for each of these attributes of the objects; no columns if there are no objects."""
    get = _getter(names)
    if len(names) == 1:
        return lambda values: [list(map(get, values))]
    return lambda values: map(list, zip(*map(get, values), strict=True))


def _getter(names: list[str]) -> Callable[[Any], Any]:
    return operator.attrgetter(*names) if names else lambda value: ()


def _unexpected(kind: Any, value: Any) -> Misfit:
    return Misfit(f"expected {short_name(kind)}, got {shown(value)}")


# -- numbers and texts


def _float(*, strict: bool) -> Look:
    def look(value: Any) -> None:
        if type(value) is float:
            if not isfinite(value):
                raise Misfit(f"JSON has no {value}; use None, or declare the whole value as a float")
        elif strict or type(value) is not int:
            raise _unexpected(float, value)
        elif abs(value) > _EXACT and (abs(value) >= 2**1024 or float(value) != value):
            raise Misfit(f"int {value} is not exact as a float; declare int")

    return look


def _floats(*, strict: bool) -> Fit:
    numbers = {float} if strict else {float, int}

    def fit(values: list[Any]) -> bool:
        """Whether all are finite: a finite sum has only finite parts."""
        kinds = set(map(type, values))
        if int in kinds and not -_EXACT <= min(values) <= max(values) <= _EXACT:
            return False
        return kinds <= numbers and isfinite(sum(values))

    return fit


def _literal(kind: Any) -> Check:
    members = members_of(kind)
    allowed, types_ = {(type(member), member) for member in members}, set(map(type, members))

    def look(value: Any) -> None:
        if type(value) not in types_ or (type(value), value) not in allowed:
            raise _unexpected(kind, value)

    return Check(frozenset(), look, lambda values: allowed.issuperset(zip(map(type, values), values, strict=True)))


_NUMBER = _float(strict=False)
_TEXT = _of_types(str, {str})


def _key(kind: Any, *, strict: bool) -> Check:
    if kind in (str, Any):
        return _TEXT
    if kind is float:
        return Check(frozenset(), _float(strict=strict), _floats(strict=strict))
    if kind is not bool and members_of(kind):
        return _literal(kind)
    if kind is datetime:  # orjson writes keys itself, and changes some offsets from UTC
        return _slow(_time_key)
    return _of_types(kind, {kind})


def _time_key(value: Any) -> None:
    if type(value) is not datetime:
        raise _unexpected(datetime, value)
    (text,) = loads(dumps({value: None}, to_json))
    check_returned(value, lambda: datetime.fromisoformat(text))


# -- JSON without a declared type


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
            f"JSON cannot restore {shown(value)}; put str, int, float, bool, None, a list or a dict of these, "
            "or declare a type that has it"
        )


def _plain(*, text_keys: bool) -> Fit:
    def fit(values: list[Any]) -> bool:
        """Check level by level: first all values, then all their parts, and so on."""
        while values and (kinds := set(map(type, values))) - _SCALARS:
            if not kinds <= _PLAIN:
                return False
            inner: list[Any] = []
            if float in kinds and not isfinite(sum(_those(float, values, kinds))):
                return False
            if list in kinds:
                inner.extend(chain.from_iterable(_those(list, values, kinds)))
            if dict in kinds:
                dicts = _those(dict, values, kinds)
                if not text_keys and not _are(str, chain.from_iterable(dicts)):
                    return False
                inner.extend(chain.from_iterable(map(dict.values, dicts)))
            values = inner
        return True

    return fit


def _those(kind: Any, values: list[Any], kinds: set[type]) -> list[Any]:
    """The values of this type; `types` has the type of each value."""
    return values if len(kinds) == 1 else [one for one in values if type(one) is kind]


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


def _array(origin: Any, check: Check) -> Check:
    def look(value: Any) -> None:
        if type(value) is not origin:
            raise _unexpected(origin, value)
        if not check.at_once.issuperset(map(type, value)):
            _each(enumerate(value), check)

    def fit(values: list[Any]) -> bool:
        return not values or (_are(origin, values) and check.fit(list(chain.from_iterable(values))))

    return Check(frozenset(), look, fit)


def _row(checks: list[Check]) -> Check:
    def look(value: Any) -> None:
        if type(value) is not tuple or len(value) != len(checks):
            raise _unexpected(tuple, value)
        for at, check in enumerate(checks):
            _each([(at, value[at])], check)

    def fit(values: list[Any]) -> bool:
        if not _are(tuple, values) or not set(map(len, values)) <= {len(checks)}:
            return False
        columns = zip(*values, strict=True)
        return all(check.fit(list(column)) for check, column in zip(checks, columns, strict=False))

    return Check(frozenset(), look, fit)


def _dict(key: Check, check: Check, *, text_keys: bool = False) -> Check:
    def look(value: Any) -> None:
        if type(value) is not dict:
            raise _unexpected(dict, value)
        if not key.at_once.issuperset(map(type, value)):
            _each(zip(value, value, strict=True), key, '["{}"]')
        if not check.at_once.issuperset(map(type, value.values())):
            _each(value.items(), check, '["{}"]')

    def fit(values: list[Any]) -> bool:
        if not values:
            return True
        if not _are(dict, values) or not (text_keys or key.fit(list(chain.from_iterable(values)))):
            return False
        return check.fit(list(chain.from_iterable(map(dict.values, values))))

    return Check(frozenset(), look, fit)


_ANYTHING = Check(_SCALARS, _json, _plain(text_keys=False))
_plain_dict, _plain_list = _dict(_TEXT, _ANYTHING).look, _array(list, _ANYTHING).look


# -- unions


def _distinguishable(members: list[Any]) -> bool:
    """Whether JSON alone tells which member a value belongs to: at most one array, one object, and no other texts."""
    others = [member for member in members if member not in _SCALARS | {float}]
    forms = [_form(member) for member in others]
    if forms == ["text"]:  # together with None, unless it is a type that is written as null
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


# -- types that are read back, because the type alone does not tell whether a value comes back


def _read_again(kind: Any, first: Check, same: Callable[[Any, Any], Any]) -> Check:
    read = converter(kind)

    def look(value: Any) -> None:
        first.look(value)
        check_returned(value, lambda: read(loads(dumps(value, to_json))), same)

    def fit(values: list[Any]) -> bool:
        return first.fit(values) and all(map(same, map(read, loads_column(dumps_column(values, to_json))), values))

    return Check(frozenset(), look, fit)


def _of_type(kind: Any) -> Check:
    def look(value: Any) -> None:
        if type(value) is not kind:
            raise _unexpected(kind, value)

    return Check(frozenset(), look, lambda values: _are(kind, values))


def _has_code(kind: Any) -> bool:
    """Its constructor may make a different object from the same fields."""
    return hasattr(kind, "__post_init__") or not kind.__dataclass_params__.init


def _same_fields(names: list[str]) -> Callable[[Any, Any], bool]:
    get = _getter(names)
    return lambda one, other: bool(get(one) == get(other))


def _alike(one: Any, other: Any) -> bool:
    """Whether they are equal, with equal types at every level."""
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
