"""What may be shown of settings that can hold passwords: in messages, in logs, and in the repr of objects."""

from __future__ import annotations

import re

_HARMLESS = re.compile(
    r"(.*\.)?(synchronous|protocol|mechanisms?|username|client\.id|location|ms|k?bytes|messages|size|host|port|dbname)"
)
"""Options whose values are shown. All others are hidden: the name of a password's option may be mistyped."""
_USER = re.compile(r"^((?:[\w+.-]+:)?+(?://)?+)(?!\w+\s*=)[^?]*(?:\?[^=]*)?@")
"""Up to the last @ before the options. The password may have any character in it, also a question mark."""
_NO_PLACE = re.compile(r"^[\w+.-]+:|\[[\w:.%]*\]|(:(?!\d*(?:[,/]|$))|=).*", re.DOTALL)
"""Group 1 begins what may be part of a password: after a colon what is not a port, and all after an equals sign.
The scheme and IPv6 addresses are skipped."""


def shown_url(url: str, *, has_path: bool = False) -> str:
    """The url with *** for what may be secret; with `has_path` the scheme is followed by a path, which may have an @.

    >>> shown_url("kafka://host:9092?kafka.sasl.username=ann&kafka.sasl.password=secret")
    'kafka://host:9092?kafka.sasl.username=ann&kafka.sasl.password=***'
    >>> shown_url("postgresql://ann:secret@host/shop")
    'postgresql://***@host/shop'
    """
    place, mark, options = (url if has_path else _USER.sub(r"\1***@", url, count=1)).partition("?")
    if not has_path:
        place = _NO_PLACE.sub(lambda found: f"{found[1]}***" if found[1] else found[0], place)
    return place + mark + "&".join(map(_option, options.split("&")))


def _option(text: str) -> str:
    name, equals, value = text.partition("=")
    if not text or (equals and "=" not in value and _HARMLESS.fullmatch(name)):
        return text
    return f"{name}=***" if equals else "***"


class Secret(str):
    """A token or a password: a text whose repr does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"
