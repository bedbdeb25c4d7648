"""The types of keys and values that a topology declares for a topic, and what is written for them."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, NamedTuple

from streamtopo.errors import SerdeError, TopologyError
from streamtopo.serdes import BOOL, BYTES, FLOAT, INT, JSON, Serde
from streamtopo.serdes.text import decoded, from_text, is_text
from streamtopo.topology import Topology
from streamtopo.topology.topic_serdes import declared_serdes, read_as_table

NUMBERS = {serde.name: serde for serde in (INT, FLOAT, BOOL)}
DeclaredType = Serde | None
"""None if nothing is declared: then the bytes must show what they are."""


class DeclaredTypes(NamedTuple):
    key: DeclaredType = None
    value: DeclaredType = None


def types_in_app(app: str | None, topic: str) -> DeclaredTypes:
    """Those of an application that is named on the command line, if one is."""
    if app is None:
        return DeclaredTypes()
    from streamtopo.engine.loading import load_topology

    return declared_types(load_topology(app), topic)


def is_table_in_app(app: str | None, topic: str) -> bool:
    """Whether the application, if one is named, reads the topic as a table."""
    if app is None:
        return False
    from streamtopo.engine.loading import load_topology

    return read_as_table(load_topology(app), topic)


def declared_types(topology: Topology, topic: str) -> DeclaredTypes:
    """Return the first types that are declared where the topology reads, writes or logs the topic."""
    found = list(declared_serdes(topology, topic))
    if not found:
        name, topics = topology.application_id, _topics(topology)
        close = get_close_matches(topic, topics, 1)
        guess = f'did you mean "{close[0]}"? If not, ' if close else ""
        raise TopologyError(
            f'the topology "{name}" neither reads nor writes "{topic}"; {guess}remove --app, or give another one. '
            f"Its topics are {', '.join(topics)}"
        )
    keys, values = zip(*found, strict=True)
    return DeclaredTypes(_first_type(keys), _first_type(values))


def _first_type(serdes: tuple[Serde, ...]) -> DeclaredType:
    return next((serde for serde in serdes if serde != BYTES), None)


def _topics(topology: Topology) -> list[str]:
    sources = {topology.topic_of(topic) for source in topology.sources for topic in source.topics}
    sinks = {topology.topic_of(sink.topic) for sink in topology.sinks if isinstance(sink.topic, str)}
    changelogs = {topology.changelog_of(name) for name, spec in topology.stores.items() if spec.logged}
    return sorted(sources | sinks | changelogs)


# -- bytes of what people write


def text_to_bytes(declared: Serde, text: bytes) -> bytes | None:
    """The bytes of a value, or a key, that is a line: numbers as decimals, what is text as it is, all else as JSON."""
    if declared.inner is not None:
        raise SerdeError("the keys of this topic have a window, so a line cannot hold one; use --json and base64")
    if is_text(declared):
        decoded(declared, text)
        return text
    try:
        value = from_text(declared, text.decode())
    except UnicodeDecodeError as error:
        raise SerdeError(f"not UTF-8: {error}") from None
    return None if value is None else _encoded(declared, value, text)


def _encoded(declared: Serde, value: Any, text: bytes) -> bytes:
    """As the application writes it. A field that it would drop is an error, because it may be misspelt."""
    data = declared.encode(value)
    if declared.name not in NUMBERS:
        for path in _lost(JSON.decode(text), JSON.decode(data)):
            raise SerdeError(f"{declared.name.rpartition('.')[2]}{path}: there is no such field")
    return data


def _lost(given: Any, kept: Any) -> Iterator[str]:
    """The paths of members that were given, but are not kept."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, member in given.items():
            if name in kept:
                yield from (f".{name}{path}" for path in _lost(member, kept[name]))
            else:
                yield f".{name}"
    elif isinstance(given, list) and isinstance(kept, list):
        for place, (one, other) in enumerate(zip(given, kept, strict=False)):
            yield from (f"[{place}]{path}" for path in _lost(one, other))
