"""What may be shown of settings that can hold passwords: in messages, in logs, and in the repr of objects."""

from __future__ import annotations

import re

_PATHS = {"embedded", "memory", "sqlite"}
"""Schemes that are followed by a path, which may contain an @."""
_HARMLESS = re.compile(
    r"(.*\.)?(synchronous|protocol|mechanisms?|username|client\.id|location|ms|k?bytes|messages|size)"
)
"""Options whose values are shown. All others are hidden: the name of a password's option may be mistyped."""


def shown_url(url: str) -> str:
    """The url with *** for what may be secret.

    >>> shown_url("kafka://host:9092?kafka.sasl.username=ann&kafka.sasl.password=secret")
    'kafka://host:9092?kafka.sasl.username=ann&kafka.sasl.password=***'
    >>> shown_url("postgresql://ann:secret@host/shop")
    'postgresql://***@host/shop'
    """
    place, mark, options = url.partition("?")
    return _place(place) + mark + "&".join(map(_option, options.split("&")))


def _place(text: str) -> str:
    scheme, colon, rest = text.partition(":")
    if scheme in _PATHS or "@" not in rest:
        return text
    slashes = "//" if rest.startswith("//") else ""
    return f"{scheme}{colon}{slashes}***@{rest.rpartition('@')[2]}"


def _option(text: str) -> str:
    name, equals, _ = text.partition("=")
    if not text or (equals and _HARMLESS.fullmatch(name)):
        return text
    return f"{name}=***" if equals else "***"


class Secret(str):
    """A token or a password: a text whose repr does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"
