"""Values as people write them in a line of text: on a command line, in a file, in a URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo.errors import SerdeError
from streamtopo.serdes import BYTES, STR, Serde

_PARSERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": {"true": True, "false": False}.__getitem__,
}


def from_text(serde: Serde, text: str) -> Any:
    """Numbers as decimals, text and bytes unchanged, everything else as in its topic, which for most types is JSON."""
    if serde.name not in _PARSERS:
        return decoded(serde, text.encode())
    try:
        return _PARSERS[serde.name](text)
    except (ValueError, KeyError):
        raise SerdeError(f'expected {serde.name}, got "{text:.80}"') from None


def is_text(serde: Serde) -> bool:
    """Whether the bytes of a value are those of a text: of str and bytes, and of a serde of the user's own functions.

    These may make something else of it, or refuse it; but they are all that defines the bytes.
    """
    return serde in (STR, BYTES) or serde.kind is None


def decoded(serde: Serde, data: bytes) -> Any:
    """The value. What a function of the user's raises becomes a SerdeError."""
    return serde.decode_column([data])[0]
