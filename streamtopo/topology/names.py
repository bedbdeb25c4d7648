"""Names of nodes, stores and topics: which are legal, and what a source reads."""

from __future__ import annotations

import re
from collections.abc import Iterable

from streamtopo.errors import TopologyError

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def valid_name(name: str, what: str) -> str:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise TopologyError(f'{what} "{name}" is not a legal name; use 1 to 249 of a-z A-Z 0-9 . _ -')
    return name


def names_or_pattern(
    source: str, topics: Iterable[str | re.Pattern[str]]
) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    """A source reads topics by name, or all topics that match one pattern."""
    topics = list(topics)
    for topic in topics:
        if not isinstance(topic, str | re.Pattern):
            hint = "name topics one by one, or give a pattern"
            if isinstance(topic, type):
                hint = "give types by name: key=…, value=…"
            raise TopologyError(f'source "{source}" is given {topic!r:.80} as a topic; {hint}')
    names = tuple(topic for topic in topics if isinstance(topic, str))
    patterns = [topic for topic in topics if not isinstance(topic, str)]
    if len(patterns) > 1 or (patterns and names):
        raise TopologyError(f'source "{source}" mixes topics and patterns; give it topic names or one pattern')
    return names, patterns[0] if patterns else None
