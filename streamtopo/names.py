"""What a source reads: topics by name, or by one pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable

from streamtopo.errors import TopologyError


def names_or_pattern(
    source: str, topics: Iterable[str | re.Pattern[str]]
) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    """A source reads topics by name, or by one pattern."""
    topics = list(topics)
    for topic in topics:
        if not isinstance(topic, str | re.Pattern):
            raise TopologyError(f'source "{source}" is given {topic!r:.80}; name topics one by one, or give a pattern')
    names = tuple(topic for topic in topics if isinstance(topic, str))
    patterns = [topic for topic in topics if not isinstance(topic, str)]
    if len(patterns) > 1 or (patterns and names):
        raise TopologyError(f'source "{source}" mixes topics and patterns; give it topic names or one pattern')
    return names, patterns[0] if patterns else None
