"""From the name of a log to the log: `memory:`, `embedded:PATH`, `kafka://HOST:PORT`."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from streamtopo.errors import LogError
from streamtopo.extras import missing
from streamtopo.logs import Log
from streamtopo.logs.memory import MemoryLog
from streamtopo.redaction import shown_url

DEFAULT = "embedded:.streamtopo"


def open_log(url: str = DEFAULT) -> Log:
    """The log of that name; each call opens it anew.

    >>> open_log("memory:").topics()
    {}
    """
    from urllib.parse import parse_qsl

    scheme, _, rest = url.partition(":")
    path, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    try:
        opener, known = _SCHEMES[scheme]
    except KeyError:
        raise LogError(f'there is no log "{shown_url(url)}"; a log is one of {", ".join(_FORMS)}') from None
    for option in [option for option in options if not any(fnmatchcase(option, one) for one in known)]:
        names = ", ".join(sorted(known)) or "none"
        raise LogError(
            f'"{shown_url(url)}" has the option "{option}", which {scheme}: logs do not have; they have {names}'
        )
    return opener(path, options)


def _memory(path: str, options: dict[str, str]) -> Log:
    return MemoryLog()


def _embedded(path: str, options: dict[str, str]) -> Log:
    from streamtopo.logs.embedded import EmbeddedLog

    return EmbeddedLog(path or ".streamtopo", synchronous=options.get("synchronous", "full"))


def _kafka(path: str, options: dict[str, str]) -> Log:
    try:
        from streamtopo.logs.kafka import KafkaLog, Settings
    except ImportError as error:
        if error.name != "confluent_kafka":
            raise
        raise LogError(missing("a kafka: log", "kafka")) from error
    brokers = path.removeprefix("//").rstrip("/")
    if not brokers:
        raise LogError("the url names no broker; give it as kafka://HOST:PORT, or several with commas between them")
    if "@" in brokers:
        raise LogError(
            f"the url {shown_url(f'kafka://{brokers}')} has a user in it; give it as kafka.sasl.username=… and "
            "kafka.sasl.password=… (STREAMTOPO_KAFKA_SASL_PASSWORD in the environment)"
        )
    return KafkaLog(Settings(brokers, options))


_SCHEMES: dict[str, tuple[Callable[[str, dict[str, str]], Log], frozenset[str]]] = {
    "embedded": (_embedded, frozenset({"synchronous"})),
    "kafka": (_kafka, frozenset({"kafka.*"})),
    "memory": (_memory, frozenset()),
}
_FORMS = ("embedded:PATH", "embedded:PATH?synchronous=normal", "kafka://HOST:PORT", "memory:")
