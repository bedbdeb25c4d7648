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
    """Numbers as decimals, text and bytes unchanged, everything else as JSON, as in its topic."""
    if serde.name not in _PARSERS:
        return serde.decode(text.encode())
    try:
        return _PARSERS[serde.name](text)
    except (ValueError, KeyError):
        raise SerdeError(f'expected {serde.name}, got "{text:.80}"') from None


def is_text(serde: Serde) -> bool:
    """Whether each text is such a value, as it is."""
    return serde in (STR, BYTES)
