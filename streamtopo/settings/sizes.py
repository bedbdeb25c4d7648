"""Sizes as people write them: "64kB", "10MB", "1GB", or bytes as an int."""

from __future__ import annotations

import re

from streamtopo.errors import ConfigError

_PATTERN = re.compile(r"(\d{1,15}(?:\.\d+)?)\s*(kB|KB|MB|GB|B)?")
_UNITS = {None: 1, "B": 1, "kB": 1000, "KB": 1000, "MB": 1_000_000, "GB": 1_000_000_000}


def size(text: str | int) -> int:
    """The size in bytes.

    >>> size("64kB"), size(20)
    (64000, 20)
    """
    if isinstance(text, int):
        return text
    match = _PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ConfigError(f"{text!r} is not a size; give bytes as an int, or a string like '64kB', '10MB' or '1GB'")
    return round(float(match[1]) * _UNITS[match[2]])
